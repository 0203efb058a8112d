import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { defineConfig } from 'vitest/config'

// Two projects: `suite` is what `npm test` runs; `faults` kills processes and servers, takes minutes and has its own
// command. Files run two at a time: those of `faults` each in a process of its own,
// those of `suite` in two processes for all, which load the server and what it stands on once.
// GraphQL comes once: Vite would take its ES modules for our files, beside those that the packages load.
const graphql = createRequire(import.meta.url).resolve('graphql')

// What Node has compiled is kept: for the next worker, for the processes of Parley that tests start, and for the next run.
process.env['NODE_COMPILE_CACHE'] ??= path.join(tmpdir(), 'parley-compile-cache')

export default defineConfig({
  resolve: { alias: [{ find: /^graphql$/, replacement: graphql }] },
  test: {
    globalSetup: 'test/support/global-setup.ts',
    pool: 'forks',
    maxWorkers: 2,
    // For machines that are slow or busy: what waits, waits for a fact, and is as fast as that comes.
    testTimeout: 60_000,
    hookTimeout: 90_000,
    teardownTimeout: 10_000,
    restoreMocks: true,
    unstubEnvs: true,
    projects: [
      {
        extends: true,
        test: { name: 'suite', include: ['test/**/*.test.ts'], exclude: ['test/faults/**'], isolate: false },
      },
      {
        extends: true,
        test: { name: 'faults', include: ['test/faults/**/*.test.ts'], testTimeout: 120_000, fileParallelism: false },
      },
    ],
  },
})
