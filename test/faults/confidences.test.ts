import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { RULES } from '../../src/confidence/rules.ts'
import { hasPostgres } from '../support/postgres.ts'
import { playConfidences, randomOf } from '../support/random-confidences.ts'
import { playSecrets } from '../support/random-secrets.ts'
import { startTestServer, type TestServer } from '../support/served.ts'
import { SHORT } from './deployment.ts'

const seed = Date.now() % 1_000_000_000
const STEPS = SHORT ? 3000 : 20_000

test('the rules of confidential spaces hold over a million random steps', () => {
  expect(playConfidences(RULES, { seed, steps: 1_000_000 }), `seed ${seed}`).toBeNull()
}, 120_000)

describe.skipIf(!hasPostgres)('agents whose model tries to carry everything everywhere', () => {
  let parley: TestServer

  beforeAll(async () => {
    const settings = { PARLEY_MAX_ROOT_RUNS: '4', PARLEY_RATE_REQUESTS: '0' }
    parley = await startTestServer({ stack: 'postgres', settings })
  })
  afterAll(() => parley?.close())

  test(`are heard only by whom it is for, over ${STEPS} steps`, async () => {
    expect(await playSecrets(parley, { random: randomOf(seed), steps: STEPS }), `seed ${seed}`).toEqual([])
  }, 1_800_000)
})
