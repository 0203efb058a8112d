import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { runsOf } from '../support/nightly.ts'
import { hasPostgres } from '../support/postgres.ts'
import { randomOf } from '../support/random-confidences.ts'
import { playSecrets } from '../support/random-secrets.ts'
import { startTestServer, type TestServer } from '../support/served.ts'

/** Another one each day; `npm run test:faults` plays more of them. */
const seed = Math.floor(Date.now() / 86_400_000)

describe.skipIf(!hasPostgres)('agents whose model tries to carry everything everywhere', () => {
  let parley: TestServer

  beforeAll(async () => {
    parley = await startTestServer({
      stack: 'postgres',
      settings: { PARLEY_MAX_ROOT_RUNS: '2', PARLEY_RATE_REQUESTS: '0' },
    })
  })
  afterAll(() => parley?.close())

  test('are heard only by whom it is for, over random steps', async () => {
    const steps = runsOf({ usual: 500, nightly: 4000 })
    expect(await playSecrets(parley, { random: randomOf(seed), steps }), `seed ${seed}`).toEqual([])
  }, 600_000)
})
