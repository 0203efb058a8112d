import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { TIMES } from '../support/random-documents.ts'
import { sendRandomDocuments, sendRandomFrames, type Target } from '../support/random-requests.ts'
import { startTestServer, type TestServer } from '../support/served.ts'

const COUNT = 400
/** Always the same seed, so that the test is deterministic. test/faults sends many more requests, with other seeds. */
const SEED = 17

describe('requests generated at random from the schema', () => {
  let parley: TestServer
  let target: Target

  beforeAll(async () => {
    parley = await startTestServer({
      worker: false,
      settings: { PARLEY_RATE_REQUESTS: '0', PARLEY_RATE_MESSAGES: '0', PARLEY_RATE_TRIGGERS: '0' },
    })
    target = {
      origin: parley.origin,
      async createWorld() {
        const { human, agent, space } = await parley.room()
        const { message, runs } = await parley.send(human, space.id, 'Hello')
        return {
          tokens: [await parley.tokenOf(human), await parley.tokenOf(parley.admin)],
          ids: [human.id, agent.id, space.id, message.id, ...runs.map(({ id }) => id)],
        }
      },
    }
  })
  afterAll(() => parley?.close())

  test.each(TIMES)('an instant out of range causes no internal error: %s', async (time) => {
    const admin = await parley.clientOf(parley.admin)
    const { errors = [] } = await admin.ask(
      `mutation ($at: DateTime!) { createAccessToken(input: { expiresAt: $at, grant: { admin: {} } }) { __typename } }`,
      { at: time },
    )
    const usage = `query ($at: DateTime!, $now: DateTime!) {
      a: usage(from: $at, to: $now, by: [DAY]) { runs } b: usage(from: $now, to: $at, by: []) { runs } }`
    errors.push(...((await admin.ask(usage, { at: time, now: '2026-11-22T10:00:00Z' })).errors ?? []))
    for (const { extensions } of errors) expect(extensions?.['code']).toBe('BAD_USER_INPUT')
  })

  test('sent as HTTP documents cause no internal error', async () => {
    expect(await sendRandomDocuments(target, COUNT, SEED)).toEqual([])
  })

  test('sent as WebSocket messages cause no internal error', async () => {
    expect(await sendRandomFrames(target, COUNT, SEED)).toEqual([])
  })
})
