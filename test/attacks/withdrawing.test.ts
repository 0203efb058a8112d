import { parse } from 'graphql'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { schema } from '../../src/graphql/schema.ts'
import { createWithdrawals } from '../../src/server/http/withdrawals.ts'
import type { ParleyClient } from '../support/parley-client.ts'
import { startTestServer, type TestServer } from '../support/served.ts'

const HEAVY = `{ ${Array.from({ length: 20 }, (_, n) => `a${n}: spaces(first: 100) { edges { node { id name } } }`).join(' ')} }`
const REMOVE = `mutation ($spaceId: ID!, $entityId: ID!) {
  result: removeMember(input: { spaceId: $spaceId, entityId: $entityId }) { __typename } }`
const DECIDE = `mutation ($approve: Boolean!) {
  result: decideToolCall(input: { toolCallId: "tcl_1", approve: $approve }) { __typename } }`
const STOP = `mutation { result: stopRun(input: { runId: "run_1" }) { __typename } }`
const RELEASE = `mutation { result: claimToolCall(input: { toolCallId: "tcl_1", release: true }) { __typename } }`

describe('a viewer who has used up the request rate', () => {
  let parley: TestServer
  beforeAll(async () => {
    parley = await startTestServer({ worker: false, settings: { PARLEY_RATE_REQUESTS: '200' } })
  })
  afterAll(() => parley?.close())

  async function spent() {
    const human = await parley.human('Ada')
    const bob = await parley.human('Bob')
    const memberIds = [human.id, bob.id]
    const space = await parley.app.domain.spaces.create(parley.admin, { name: 'Room', routing: 'BROADCAST', memberIds })
    const client = await parley.clientOf(human)
    for (let n = 0; n < 8; n++) await client.ask(HEAVY)
    expect((await client.ask('{ viewer { id } }')).status).toBe(429)
    return { human, bob, client, spaceId: space.id }
  }
  const resultOf = async (client: ParleyClient, text: string, variables: object = {}) => {
    const { data, errors } = await client.ask<{ result: { __typename: string } }>(text, variables)
    return data?.result.__typename ?? errors?.[0]?.extensions?.['code']
  }

  test('can still leave a space, deny, stop and release a claim, but do nothing else', async () => {
    const { human, bob, client, spaceId } = await spent()
    expect(await resultOf(client, STOP)).toBe('NotFoundError')
    expect(await resultOf(client, RELEASE)).toBe('NotFoundError')
    expect(await resultOf(client, DECIDE, { approve: false })).toBe('NotFoundError')
    expect(await resultOf(client, DECIDE, { approve: true })).toMatch(/^(RATE_LIMITED|RateLimitedError)$/)
    expect(await resultOf(client, REMOVE, { spaceId, entityId: bob.id })).toBe('RATE_LIMITED')
    expect(await resultOf(client, REMOVE, { spaceId, entityId: human.id })).toBe('RemoveMemberPayload')
  })

  test('can do so sixty times a minute', async () => {
    const { client } = await spent()
    const results: unknown[] = []
    for (let n = 0; n < 62; n++) results.push(await resultOf(client, STOP))
    expect(results.filter((result) => result === 'NotFoundError')).toHaveLength(60)
    expect(results.slice(60)).toEqual(['RATE_LIMITED', 'RATE_LIMITED'])
  })
})

describe('such an operation exceeds the rate without an error', () => {
  const viewer = { scope: 'HUMAN', id: 'hum_1', tokenId: null, expiresAt: null } as const
  const heavy = `__typename ... on StopRunPayload { stoppedRuns { id children(first: 100) { edges { node { id } } } } }`

  test.each([
    [true, 'mutation { removeMember(input: { spaceId: "s", entityId: "hum_1" }) { __typename } }'],
    [false, 'mutation { removeMember(input: { spaceId: "s", entityId: "hum_2" }) { __typename } }'],
    [true, 'mutation ($i: RemoveMemberInput!) { removeMember(input: $i) { __typename } }'],
    [
      true,
      'mutation { a: stopRun(input: { runId: "r" }) { __typename } b: stopRun(input: { runId: "q" }) { __typename } }',
    ],
    [
      false,
      'mutation { stopRun(input: { runId: "r" }) { __typename } markRead(input: { spaceId: "s", messageId: "m" }) { __typename } }',
    ],
    [false, `mutation { stopRun(input: { runId: "r" }) { ${heavy} } }`],
    [false, 'mutation { decideToolCall(input: { toolCallId: "t", approve: false, input: {} }) { __typename } }'],
    [false, 'mutation { claimToolCall(input: { toolCallId: "t" }) { __typename } }'],
    [false, 'mutation { ...F } fragment F on Mutation { stopRun(input: { runId: "r" }) { __typename } }'],
    [false, '{ viewer { id } }'],
  ])('%s: %s', async (admitted, text) => {
    const variableValues = { i: { spaceId: 's', entityId: 'hum_1' } }
    const args = { schema, document: parse(text), variableValues }
    expect(await createWithdrawals().admits(args, viewer)).toBe(admitted)
  })
})
