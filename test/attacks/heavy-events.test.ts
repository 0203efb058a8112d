import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import WebSocket from 'ws'
import type { HumanViewer } from '../../src/access/viewer.ts'
import type { ParleyClient } from '../support/parley-client.ts'
import { startTestServer, type TestServer } from '../support/served.ts'
import { until } from '../support/until.ts'

const LONG = 'x'.repeat(30_000)
const MANY = 300
const HEAVY = `{ ${Array.from({ length: 20 }, (_, n) => `a${n}: spaces(first: 100) { edges { node { id name } } }`).join(' ')} }`
const RATES = '{ viewer { rateLimits { name remaining } } }'
const LAST_MESSAGES = `subscription { viewerEvents { __typename
  ... on ViewerSpaceChanged { space { lastMessage { text } } } } }`
const lightOf = (spaceId: string) => `subscription { spaceMessages(spaceId: "${spaceId}") { __typename } }`
const heavyOf = (spaceId: string) => `subscription { spaceMessages(spaceId: "${spaceId}") { __typename
  ... on MessagePosted { message { space { messages(last: 15) { edges { node { text } } } } } } } }`

describe('expensive events', () => {
  let parley: TestServer

  beforeAll(async () => {
    const settings = { PARLEY_RATE_REQUESTS: '200', PARLEY_RATE_MESSAGES: '0' }
    // In these heavy subscriptions, each event has about 450,000 characters.
    const pacing = { burst: 1_000_000, perSecond: 300_000 }
    parley = await startTestServer({ worker: false, settings, pacing })
  })
  afterAll(() => parley?.close())

  async function watching(human: HumanViewer, text: string) {
    const client = await parley.clientOf(human)
    let posted = 0
    const watched = client.subscribe<{ spaceMessages: { __typename: string } }, object>(
      text,
      {},
      ({ spaceMessages }) => {
        if (spaceMessages.__typename === 'MessagePosted') posted += 1
      },
    )
    await until('the subscription is active', async () => watched.seen.length > 0)
    return { client, posted: () => posted }
  }
  const remainingOf = async (client: ParleyClient) => {
    const { data } = await client.ask<{ viewer: { rateLimits: { name: string; remaining: number }[] } }>(RATES)
    return data?.viewer.rateLimits.find(({ name }) => name === 'requests')?.remaining ?? 0
  }

  test('are paced, with any sender, and are not charged to the rates of the subscribers', async () => {
    const [mallory, bob, carol] = [
      await parley.human('Mallory'),
      await parley.human('Bob'),
      await parley.human('Carol'),
    ]
    const roomOf = (...memberIds: string[]) =>
      parley.app.domain.spaces.create(parley.admin, { name: 'Hall', routing: 'BROADCAST', memberIds })
    const { id: spaceId } = await roomOf(mallory.id, bob.id, carol.id)
    const { id: elsewhere } = await roomOf(mallory.id, bob.id)
    for (let n = 0; n < 15; n += 1) await parley.send(bob, spaceId, LONG)
    const other = await watching(mallory, heavyOf(elsewhere))
    for (let n = 0; n < 15; n += 1) await parley.send(bob, elsewhere, LONG)
    await until('she has used up her burst', async () => other.posted() > 0)
    const heavy = await watching(mallory, heavyOf(spaceId))
    const same = await watching(carol, heavyOf(spaceId))
    const light = await watching(bob, lightOf(spaceId))
    const before = await remainingOf(heavy.client)
    for (let n = 1; n <= 4; n += 1) {
      await parley.send(bob, spaceId, LONG)
      await until('a light subscription gets the event', async () => light.posted() === n)
      if (n === 1)
        await until('another subscription with the same selection gets the event', async () => same.posted() === 1)
    }
    expect(heavy.posted()).toBeLessThan(4)
    expect(await remainingOf(heavy.client)).toBeGreaterThan(before - 5)
    await until('the other viewer gets the rest', async () => heavy.posted() === 4)
  })

  test('the events of a list of spaces are not charged either, however long the last messages are', async () => {
    const [mallory, bob] = [await parley.human('Mallory'), await parley.human('Bob')]
    const input = { name: 'Hall', routing: 'BROADCAST' as const, memberIds: [mallory.id, bob.id] }
    const { id: spaceId } = await parley.app.domain.spaces.create(parley.admin, input)
    const client = await parley.clientOf(bob)
    const list = client.subscribe<{ viewerEvents: { __typename: string } }, object>(
      { toString: () => LAST_MESSAGES },
      {},
    )
    await until('the subscription is active', async () => list.seen.length > 0)
    const before = await remainingOf(client)
    for (let n = 1; n <= 4; n += 1) {
      await parley.send(mallory, spaceId, LONG)
      await until('he gets the event', async () => list.seen.length > n)
    }
    expect(await remainingOf(client)).toBe(before - 1)
  })

  test('a socket that exceeds its rate is read more slowly, and its operations still get responses', async () => {
    const token = await parley.tokenOf(await parley.human('Mallory'))
    const socket = new WebSocket(`${parley.origin.replace('http', 'ws')}/graphql`, 'graphql-transport-ws')
    const refused: number[] = []
    socket.on('message', (data) => {
      const { type, id } = JSON.parse(String(data))
      if (type === 'error') refused.push(Number(id))
    })
    await new Promise((resolve) => socket.once('open', resolve))
    socket.send(JSON.stringify({ type: 'connection_init', payload: { authorization: `Bearer ${token}` } }))
    await new Promise((resolve) => socket.once('message', resolve))
    const ask = (id: number) => {
      socket.send(JSON.stringify({ id: String(id), type: 'subscribe', payload: { query: HEAVY } }))
    }
    for (let id = 0; id < MANY; id += 1) ask(id)
    await until('the socket is beyond its rate', async () => refused.length >= 100)
    const began = performance.now()
    for (let id = MANY; id < 2 * MANY; id += 1) ask(id)
    await until('all operations have results', async () => refused.length >= MANY, { timeoutMs: 30_000 })
    expect(performance.now() - began).toBeGreaterThan(1000)
    socket.terminate()
  })
})
