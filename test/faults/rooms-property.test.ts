import { afterAll, beforeAll, describe, test } from 'vitest'
import { startApplication, type TestApplication } from '../support/application.ts'
import { hasPostgres } from '../support/postgres.ts'
import { expectDiscretion } from '../support/random-rooms.ts'

const seed = Date.now() % 1_000_000

describe.skipIf(!hasPostgres)(
  'random spaces whose members come and go, with runs that enter, wait, resume and crash',
  () => {
    let parley: TestApplication

    beforeAll(async () => {
      parley = await startApplication({ stack: 'postgres', settings: { PARLEY_MAX_ROOT_RUNS: '6' } })
    })
    afterAll(() => parley?.close())

    test(
      `no request holds a word said in a space to which its agent did not belong, every one what triggered its run (seed ${seed})`,
      () => expectDiscretion(parley, { numRuns: 60, seed }),
      900_000,
    )
  },
)
