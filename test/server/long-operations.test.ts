import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { requesterHere } from '../../src/lib/requester-context.ts'
import { startTestServer, type TestServer } from '../support/served.ts'

describe('an operation that takes more than 30 s', () => {
  let parley: TestServer
  beforeAll(async () => {
    parley = await startTestServer()
  })
  afterAll(() => parley?.close())

  /** Makes the next statement for a human take 31 s, by the clock of this process. */
  function slowDownNextStatement(humanId: string): void {
    const { db } = parley.app.platform
    const { query, transaction } = db
    const now = performance.now.bind(performance)
    const slow = <Work extends (...given: never[]) => unknown>(work: Work) =>
      ((...given: Parameters<Work>) => {
        if (requesterHere() !== humanId) return work(...given)
        Object.assign(db, { query, transaction })
        vi.spyOn(performance, 'now').mockImplementation(() => now() + 31_000)
        return work(...given)
      }) as Work
    Object.assign(db, { query: slow(query), transaction: slow(transaction) })
  }

  test('begins no further mutation: mutations that list RateLimitedError return it, and the first mutation has its result', async () => {
    const { human, space } = await parley.room()
    const client = await parley.clientOf(human)
    const send = `sendMessage(input: { spaceId: "${space.id}", text: "Hello" }) { __typename ... on Error { code message } }`
    slowDownNextStatement(human.id)
    const { data, errors } = await client.ask(`mutation { first: ${send} second: ${send} third: ${send} }`)
    expect(errors).toBeUndefined()
    const refused = {
      __typename: 'RateLimitedError',
      code: 'RATE_LIMITED',
      message: 'The operation took too long: this mutation was not started. Send fewer mutations in one operation.',
    }
    expect(data).toEqual({ first: { __typename: 'SendMessagePayload' }, second: refused, third: refused })
    expect(
      await parley.app.platform.db.prisma.message.count({ where: { spaceId: space.id, senderId: human.id } }),
    ).toBe(1)
  })

  test('gets an error for a mutation that does not list RateLimitedError', async () => {
    const { human, space } = await parley.room()
    const client = await parley.clientOf(human)
    const send = `sendMessage(input: { spaceId: "${space.id}", text: "Hello" }) { __typename }`
    const create = 'createSpace(input: { name: "Room" }) { __typename }'
    slowDownNextStatement(human.id)
    const { data, errors } = await client.ask(`mutation { first: ${send} second: ${create} }`)
    expect(data).toBeNull()
    expect(errors).toMatchObject([{ path: ['second'], extensions: { code: 'RATE_LIMITED' } }])
  })
})
