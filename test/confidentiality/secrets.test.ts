import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { runsOf } from '../support/effort.ts'
import { hasPostgres } from '../support/postgres.ts'
import { randomOf } from '../support/random-confidences.ts'
import { playSecrets } from '../support/random-secrets.ts'
import { startTestServer, type TestServer } from '../support/served.ts'

const seed = Date.now() % 1_000_000_000

describe.skipIf(!hasPostgres)('agents whose model tries to leak all content everywhere', () => {
  let parley: TestServer

  beforeAll(async () => {
    parley = await startTestServer({
      stack: 'postgres',
      settings: { PARLEY_MAX_ROOT_RUNS: String(runsOf({ usual: 2, nightly: 4 })), PARLEY_RATE_REQUESTS: '0' },
    })
  })
  afterAll(() => parley?.close())

  test('reveal secrets only to their recipients, over random steps', async () => {
    const steps = runsOf({ usual: 300, nightly: 20_000 })
    expect(await playSecrets(parley, { random: randomOf(seed), steps }), `seed ${seed}`).toEqual([])
  }, 1_800_000)
})
