import { afterAll, beforeAll, describe, test } from 'vitest'
import { startApplication, type TestApplication } from '../support/application.ts'
import { runsOf } from '../support/nightly.ts'
import { hasPostgres } from '../support/postgres.ts'
import { expectDiscretion } from '../support/random-rooms.ts'

/** Another one each day; `npm run test:faults` plays more of them. */
const seed = Math.floor(Date.now() / 86_400_000)

describe.skipIf(!hasPostgres)(
  'random spaces whose members come and go, with runs that enter, wait, resume and crash',
  () => {
    let parley: TestApplication

    beforeAll(async () => {
      parley = await startApplication({ stack: 'postgres', settings: { PARLEY_MAX_ROOT_RUNS: '6' } })
    })
    afterAll(() => parley?.close())

    test('no request holds a word said in a space to which its agent did not belong, every one what triggered its run', () =>
      expectDiscretion(parley, { numRuns: runsOf({ usual: 1, nightly: 10 }), seed }))
  },
)
