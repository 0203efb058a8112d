import { tmpdir } from 'node:os'
import path from 'node:path'
import { defineConfig } from 'vitest/config'
import { FRONT_ENDS, isAvailable } from './scripts/packages.ts'

// Five projects. `npm test` runs `suite`, which takes about 6 minutes on two cores. `npm run test:long` runs `long`, `heap` and
// `alone`: whole servers as an operator starts them, browsers, periods and time limits, heap measurements, and random attacks.
// `npm run test:faults` runs `faults`, which kills processes and servers and takes many minutes. Several files run at a time. In
// `heap` and `faults` each file has a process of its own; in the other projects files share a few processes, which load the
// server and its packages once.
// Keeps Node's compiled code for the next worker, for the processes of Parley that tests start, and for the next run of the tests.
process.env['NODE_COMPILE_CACHE'] ??= path.join(tmpdir(), 'parley-compile-cache')

// A connection plans each statement once instead of six times: in a short test, planning is more than half of PostgreSQL's work.
// It also compiles none: without statistics, PostgreSQL takes some statements on a few rows for large ones.
process.env['PGOPTIONS'] ??= '-c plan_cache_mode=force_generic_plan -c jit=off'

/**
 * These files take many seconds each. They start whole servers, browsers or compilers many times, attack a server in every way
 * that we know, act at random, query a database with years of data, let processes or servers die, or test periods and time limits.
 */
const LONG = [
  ...['attacks', 'browser', 'e2e', 'package'].map((folder) => `test/${folder}/**/*.test.ts`),
  ...[
    '*/*-property',
    'access/start-link',
    'api/statements',
    'broker/redis-cluster',
    'broker/redis-faults',
    'broker/redis-sentinel',
    'broker/redis-start',
    'client/package',
    'client/renewal',
    'confidentiality/secrets',
    'context/one-cycle',
    'context/outages',
    'context/prompt-sizes',
    'delivery/crowds',
    'delivery/paced-subscriptions',
    'engine/broken-off',
    'foreign/killed-process',
    'guide',
    'jobs/dying-processes',
    'jobs/worker',
    'operation/backup',
    'operation/compose',
    'operation/deletion',
    'operation/grants',
    'operation/moving',
    'operation/record-command',
    'operation/retention',
    'plans/two-schedulers',
    'platform/collation',
    'platform/connections',
    'platform/directory-lock',
    'platform/embedded-statements',
    'platform/hot-statements',
    'platform/migrate',
    'platform/pooler',
    'platform/postgres-refusals',
    'platform/postgres-settings',
    'platform/surroundings',
    'platform/upgrade',
    'replay/canaries',
    'replay/commands',
    'replay/planted',
    'replay/releases',
    'runs/decisions-at-once',
    'runs/decisions-restarted',
    'runs/due',
    'runs/limits',
    'runs/presence',
    'scenarios/decisions-at-once',
    'scenarios/hundred-calls',
    'scenarios/narrowing',
    'server/draining',
    'server/draining-load',
    'server/ping-progress',
    'server/request-ids',
    'spaces/presence',
    'tools/any-input',
    'tools/dying-worker',
  ].map((name) => `test/${name}.test.ts`),
]
/** The examples, and the clients and conformance kits of other protocols, have packages of their own, which `npm ci` at the root leaves out. */
const KITS = isAvailable('kits', 'kits/test')
const EXAMPLES = isAvailable('examples', 'examples/test')
const FRONT_END_TESTS = FRONT_ENDS.map((folder) => ({
  folder,
  file: `examples/test/${path.basename(folder)}.test.ts`,
})).filter(({ folder, file }) => isAvailable(folder, file))

/** These files measure the heap or the processor, so each needs a process of its own. */
const HEAPS = [
  'delivery/subscription-leaks',
  'delivery/slow-readers',
  'server/document-cache',
  'server/sent-responses',
  'spaces/presence-cost',
].map((name) => `test/${name}.test.ts`)

/** These files measure times, so they run one after the other, after the files of all other projects. */
const ALONE = ['attacks/randomized', 'attacks/unfinished-bodies', 'e2e/behind-nginx'].map(
  (name) => `test/${name}.test.ts`,
)

/** A file leaves its application and its database to the next one in its process: test/support/reuse.ts. */
const REUSE = { TEST_REUSE: '1' }

export default defineConfig({
  test: {
    globalSetup: 'test/support/global-setup.ts',
    pool: 'forks',
    // Node loads the files itself, as it loads the server: without Vite's transforms, and with its compile cache. No test mocks a module.
    experimental: { viteModuleRunner: false, nodeLoader: false },
    maxWorkers: 3,
    // High, for slow or busy machines. It costs nothing: tests wait for facts, never for a fixed time.
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
          env: REUSE,
        },
      },
      {
        extends: true,
        test: {
          name: 'long',
          include: [
            ...LONG,
            ...(KITS ? ['kits/test/**/*.test.ts'] : []),
            ...(EXAMPLES ? ['examples/test/pages.test.ts'] : []),
            ...FRONT_END_TESTS.map(({ file }) => file),
          ],
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
