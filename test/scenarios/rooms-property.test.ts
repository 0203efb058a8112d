import { afterAll, beforeAll, describe, test } from 'vitest'
import { startApplication, type TestApplication } from '../support/application.ts'
import { runsOf } from '../support/effort.ts'
import { hasPostgres } from '../support/postgres.ts'
import { expectDiscretion } from '../support/random-rooms.ts'

const seed = Date.now() % 1_000_000

describe.skipIf(!hasPostgres)(
  'random spaces with changing members, and runs that enter, wait, resume and crash',
  () => {
    let parley: TestApplication

    beforeAll(async () => {
      parley = await startApplication({ stack: 'postgres', settings: { PARLEY_MAX_ROOT_RUNS: '6' } })
    })
    afterAll(() => parley?.close())

    test(
      `no prompt contains a text from a space without its agent, and each contains what triggered its run (seed ${seed})`,
      () => expectDiscretion(parley, { numRuns: runsOf({ usual: 1, nightly: 60 }), seed }),
      900_000,
    )
  },
)
