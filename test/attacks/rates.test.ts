import { Webhook } from 'standardwebhooks'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { HumanViewer } from '../../src/access/viewer.ts'
import { STACKS } from '../support/application.ts'
import type { ParleyClient } from '../support/parley-client.ts'
import { startTestServer, type TestServer } from '../support/served.ts'
import { until } from '../support/until.ts'

const SEND = `mutation ($spaceId: ID!) { sendMessage(input: { spaceId: $spaceId, text: "Hello" }) {
  __typename ... on RateLimitedError { code message retryAfterMs } } }`
const RATES = '{ viewer { rateLimits { name limit remaining resetsAt } } }'
const HEAVY = `{ ${Array.from({ length: 20 }, (_, n) => `a${n}: spaces(first: 100) { edges { node { id name } } }`).join(' ')} }`

describe.each(STACKS.slice(-1))('a client that exceeds its rate, on the %s stack', (stack) => {
  let parley: TestServer

  beforeAll(async () => {
    parley = await startTestServer({
      stack,
      worker: false,
      settings: { PARLEY_RATE_MESSAGES: '5', PARLEY_RATE_TRIGGERS: '3', PARLEY_RATE_REQUESTS: '200' },
    })
  })
  afterAll(() => parley?.close())

  async function someone(name: string): Promise<{ human: HumanViewer; client: ParleyClient; spaceId: string }> {
    const human = await parley.human(name)
    const { id } = await parley.space(human, [])
    return { human, client: await parley.clientOf(human), spaceId: id }
  }
  const limitsOf = async (client: ParleyClient) =>
    (
      (await client.ask(RATES)).data as {
        viewer: { rateLimits: { name: string; remaining: number; resetsAt: string }[] }
      }
    ).viewer.rateLimits

  test('exceeding the rate of messages returns a retry time, and others can still post', async () => {
    const { client, spaceId } = await someone('Ada')
    const results: { __typename: string; retryAfterMs?: number }[] = []
    for (let n = 0; n < 7; n += 1) {
      const { data } = await client.ask<{ sendMessage: { __typename: string } }>(SEND, { spaceId })
      results.push(data!.sendMessage)
    }
    expect(results.map(({ __typename }) => __typename)).toEqual([
      ...Array(5).fill('SendMessagePayload'),
      ...Array(2).fill('RateLimitedError'),
    ])
    expect(results[6]).toMatchObject({ code: 'RATE_LIMITED' })
    expect(results[6]?.retryAfterMs).toBeGreaterThan(0)
    expect(results[6]?.retryAfterMs).toBeLessThanOrEqual(60_000)
    const other = await someone('Bob')
    expect((await other.client.ask(SEND, { spaceId: other.spaceId })).data).toMatchObject({
      sendMessage: { __typename: 'SendMessagePayload' },
    })
    const messages = (await limitsOf(client)).find(({ name }) => name === 'messages')
    expect(messages).toMatchObject({ limit: 5, remaining: 0 })
    expect(Date.parse(messages?.resetsAt ?? '')).toBeGreaterThan(Date.now())
    expect(await limitsOf(await parley.clientOf(parley.admin))).toEqual([])
  })

  test('exceeding the rate of requests, weighted by complexity, gets 429 with Retry-After, or RateLimitedError from a mutation that lists it', async () => {
    const { human, client, spaceId } = await someone('Eve')
    const other = await someone('Fay')
    const token = await parley.tokenOf(human)
    const ask = (query: string, variables?: object) =>
      fetch(`${parley.origin}/graphql`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', authorization: `Bearer ${token}` },
        body: JSON.stringify({ query, variables }),
      })
    const statuses: number[] = []
    for (let n = 0; n < 12; n += 1) statuses.push((await ask(HEAVY)).status)
    expect(statuses[0]).toBe(200)
    expect(statuses.at(-1)).toBe(429)
    const refused = await ask('{ viewer { id } }')
    expect(refused.status).toBe(429)
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0)
    expect(await refused.json()).toMatchObject({
      errors: [{ extensions: { code: 'RATE_LIMITED', retryAfterMs: expect.any(Number) } }],
    })
    expect(await (await ask(SEND, { spaceId })).json()).toMatchObject({
      data: { sendMessage: { __typename: 'RateLimitedError', code: 'RATE_LIMITED' } },
    })
    // The limit also applies to the same viewer over another transport, but not to another viewer.
    const bySocket = client.subscribe({ toString: () => 'query { viewer { id } }' }, {})
    expect(JSON.stringify(await bySocket.ended)).toContain('RATE_LIMITED')
    expect((await other.client.ask('{ viewer { id } }')).status).toBe(200)
  })

  test('of requests is also charged for the bytes of its responses', async () => {
    const { human, client, spaceId } = await someone('Ida')
    const other = await someone('Jan')
    for (let n = 0; n < 30; n += 1) {
      await parley.send(human, spaceId, `${n} ${'x'.repeat(30_000)}`)
      await parley.send(other.human, other.spaceId, `${n}`)
    }
    const READ = 'query ($id: ID!) { space(id: $id) { messages(first: 30) { edges { node { text } } } } }'
    const statusesOf = async (reader: typeof other, times: number) => {
      const statuses: number[] = []
      for (let n = 0; n < times; n += 1) statuses.push((await reader.client.ask(READ, { id: reader.spaceId })).status)
      return statuses
    }
    expect(await statusesOf(other, 20)).toEqual(Array(20).fill(200))
    const statuses = await statusesOf({ human, client, spaceId }, 20)
    expect(statuses[0]).toBe(200)
    expect(statuses.at(-1)).toBe(429)
  })

  test('of documents is charged by length, and long documents are not parsed', async () => {
    const { client } = await someone('Hal')
    const long = (n: number) => `{ ${'viewer { id scope } '.repeat(300)} nothing${n} }`
    const codes: unknown[] = []
    for (let n = 0; n < 6; n += 1) codes.push((await client.ask(long(n))).errors?.[0]?.extensions?.['code'])
    expect(codes[0]).toBe('GRAPHQL_VALIDATION_FAILED')
    expect(codes.at(-1)).toBe('RATE_LIMITED')
    expect((await client.ask(long(9))).status).toBe(429)
    const bySocket = client.subscribe({ toString: () => long(9) }, {})
    expect(JSON.stringify(await bySocket.ended)).toContain('RATE_LIMITED')
  })

  test('may disconnect while its subscription waits for a turn: that is no unexpected error', async () => {
    const { client, spaceId } = await someone('Kim')
    while ((await client.ask(HEAVY)).status !== 429);
    const figure = async (name: string) =>
      Number(new RegExp(`^${name} (\\d+)`, 'm').exec(await (await fetch(`${parley.origin}/metrics`)).text())?.[1])
    const before = await figure('parley_unexpected_errors_total')
    client.subscribe({ toString: () => `subscription { spaceMessages(spaceId: "${spaceId}") { __typename } }` }, {})
    // The server reads the operations of a socket in order, so the subscription is waiting by now.
    await client.subscribe({ toString: () => 'query { viewer { id } }' }, {}).ended
    await client.close()
    await until('the socket is closed', async () => (await figure('parley_sockets')) === 0)
    expect(await figure('parley_unexpected_errors_total')).toBe(before)
  })

  test('exceeding the rate of triggers is an error, for a service and for a webhook', async () => {
    const agent = await parley.agent('Hooked', { mind: 'PERSISTENT' })
    const service = await parley.clientOf({
      scope: 'SERVICE',
      id: '',
      name: 'ci',
      agentIds: null,
      tokenId: null,
      expiresAt: null,
    })
    const trigger = `mutation { triggerAgent(input: { agentId: "${agent.id}", payload: {} }) { __typename } }`
    const types: unknown[] = []
    for (let n = 0; n < 4; n += 1) types.push((await service.ask(trigger)).data)
    expect(types.map((data) => JSON.stringify(data))).toEqual([
      ...Array(3).fill('{"triggerAgent":{"__typename":"TriggerAgentPayload"}}'),
      '{"triggerAgent":{"__typename":"RateLimitedError"}}',
    ])
    const { webhook, secret } = await parley.app.domain.webhooks.create(parley.admin, {
      agentId: agent.id,
      serviceName: 'ci',
    })
    const deliver = (id: string) =>
      fetch(`${parley.origin}/hooks/agents/${webhook.id}`, {
        method: 'POST',
        headers: {
          'webhook-id': id,
          'webhook-timestamp': String(Math.floor(Date.now() / 1000)),
          'webhook-signature': new Webhook(secret).sign(id, new Date(), '{}'),
        },
        body: '{}',
      })
    const statuses: number[] = []
    for (let n = 0; n < 4; n += 1) statuses.push((await deliver(`d-${n}`)).status)
    expect(statuses).toEqual([202, 202, 202, 429])
    expect(Number((await deliver('d-5')).headers.get('retry-after'))).toBeGreaterThan(0)
  })

  test.skipIf(stack === 'embedded')('the rate is limited across all processes of the deployment', async () => {
    const { client, human } = await someone('Gil')
    await client.ask(HEAVY)
    const beside = await startTestServer({
      stack,
      worker: false,
      beside: parley,
      settings: { PARLEY_RATE_REQUESTS: '200' },
    })
    const there = await beside.clientOf(human)
    const used = 200 - (await limitsOf(client)).find(({ name }) => name === 'requests')!.remaining
    await until('this process has read the count of the other one', async () => {
      const rate = (await limitsOf(there)).find(({ name }) => name === 'requests')
      return rate !== undefined && 200 - rate.remaining > used
    })
    await until('the other process refuses it too', async () => (await there.ask(HEAVY)).status === 429)
    await until('this process refuses it', async () => (await client.ask('{ viewer { id } }')).status === 429)
    await beside.close()
  })
})
