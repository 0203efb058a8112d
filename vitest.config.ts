import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { defineConfig } from 'vitest/config'
import { isAvailable } from './scripts/packages.ts'

// Five projects: `suite` is what `npm test` runs, below five minutes; `long`, `heap` and `alone` are `npm run test:long`: whole servers, as
// an operator starts them, browsers, heaps that are measured, and hostile members at random; `faults` kills processes and servers, takes many minutes and has its
// own command. Files run several at a time: those of `heap` and `faults` each in a process of its own,
// those of the others in a few processes for all, which load the server and what it stands on once.
// GraphQL comes once: Vite would take its ES modules for our files, beside those that the packages load.
const graphql = createRequire(import.meta.url).resolve('graphql')

// What Node has compiled is kept: for the next worker, for the processes of Parley that tests start, and for the next run.
process.env['NODE_COMPILE_CACHE'] ??= path.join(tmpdir(), 'parley-compile-cache')

// A connection plans a statement once, and not six times: planning is more than half of what a short test asks of PostgreSQL.
process.env['PGOPTIONS'] ??= '-c plan_cache_mode=force_generic_plan'

/**
 * They start whole servers, browsers or compilers again and again, attack one with whatever there is, play at random, or look into
 * a database of years: many seconds each.
 */
const LONG = [
  ...['attacks', 'browser', 'e2e', 'package'].map((folder) => `test/${folder}/**/*.test.ts`),
  ...['*/*-property', 'guide', 'confidentiality/secrets', 'engine/broken-off'].map((name) => `test/${name}.test.ts`),
  ...['broker/redis-cluster', 'broker/redis-faults', 'tools/any-input'].map((name) => `test/${name}.test.ts`),
  ...['runs/decisions-at-once', 'server/request-ids'].map((name) => `test/${name}.test.ts`),
  'test/delivery/crowds.test.ts',
  'test/server/draining-load.test.ts',
  ...['backup', 'compose', 'moving'].map((name) => `test/operation/${name}.test.ts`),
  ...['directory-lock', 'hot-statements', 'migrate', 'upgrade'].map((name) => `test/platform/${name}.test.ts`),
  ...['pooler', 'postgres-refusals', 'postgres-settings', 'surroundings'].map(
    (name) => `test/platform/${name}.test.ts`,
  ),
]
/** The examples have packages of their own, which `npm ci` at the root leaves out. */
const EXAMPLES = isAvailable('examples', 'examples/test')

/** They measure a heap, which is only theirs in a process of their own. */
const HEAPS = ['delivery/subscription-leaks', 'delivery/slow-readers', 'server/document-cache'].map(
  (name) => `test/${name}.test.ts`,
)

/** They measure how long things take, beside nothing else: one after the other, after the files of all other projects. */
const ALONE = ['attacks/randomized', 'attacks/unfinished-bodies', 'e2e/behind-nginx'].map(
  (name) => `test/${name}.test.ts`,
)

export default defineConfig({
  resolve: { alias: [{ find: /^graphql$/, replacement: graphql }] },
  test: {
    globalSetup: 'test/support/global-setup.ts',
    pool: 'forks',
    maxWorkers: 4,
    // For machines that are slow or busy: what waits, waits for a fact, and is as fast as that comes.
    testTimeout: 120_000,
    hookTimeout: 120_000,
    teardownTimeout: 10_000,
    restoreMocks: true,
    unstubEnvs: true,
    projects: [
      {
        extends: true,
        test: {
          name: 'suite',
          include: ['test/**/*.test.ts', ...(EXAMPLES ? ['examples/test/chats.test.ts'] : [])],
          exclude: ['test/faults/**', ...LONG, ...HEAPS],
          isolate: false,
        },
      },
      {
        extends: true,
        test: {
          name: 'long',
          include: [...LONG, ...(EXAMPLES ? ['examples/test/pages.test.ts'] : [])],
          exclude: ALONE,
          isolate: false,
        },
      },
      { extends: true, test: { name: 'heap', include: HEAPS } },
      {
        extends: true,
        test: { name: 'alone', include: ALONE, fileParallelism: false, sequence: { groupOrder: 1 } },
      },
      {
        extends: true,
        test: { name: 'faults', include: ['test/faults/**/*.test.ts'], testTimeout: 120_000, fileParallelism: false },
      },
    ],
  },
})
