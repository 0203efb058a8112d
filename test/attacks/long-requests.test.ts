import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import WebSocket from 'ws'
import type { HumanViewer } from '../../src/access/viewer.ts'
import { RateLimitedError } from '../../src/lib/errors.ts'
import { createRequestBytes } from '../../src/server/request-bytes.ts'
import { startTestServer, type TestServer } from '../support/served.ts'
import { until } from '../support/until.ts'

interface Message {
  type: string
  id?: string
  payload?: unknown
}

const MIB = 1024 * 1024

describe('requests that are longer than their operation needs', () => {
  let parley: TestServer
  beforeAll(async () => {
    parley = await startTestServer({ worker: false, settings: { PARLEY_RATE_REQUESTS: '6000' } })
  })
  afterAll(() => parley?.close())

  async function someone(name: string): Promise<{ human: HumanViewer; authorization: string; query: string }> {
    const human = await parley.human(name)
    const { id } = await parley.space(human, [])
    const query = `subscription { spaceMessages(spaceId: "${id}") { __typename } }`
    return { human, authorization: `Bearer ${await parley.tokenOf(human)}`, query }
  }

  async function open(authorization: string | null) {
    const socket = new WebSocket(`${parley.origin.replace('http', 'ws')}/graphql`, 'graphql-transport-ws')
    const received: Message[] = []
    const closed = new Promise<number>((resolve) => socket.on('close', resolve))
    socket.on('message', (data) => received.push(JSON.parse(String(data))))
    await new Promise((resolve) => socket.once('open', resolve))
    const send = (message: object) => socket.send(JSON.stringify(message))
    const got = (type: string, id?: string) =>
      until(`${type} ${id ?? ''} arrives`, () => received.find((one) => one.type === type && one.id === id))
    if (authorization !== null) {
      send({ type: 'connection_init', payload: { authorization } })
      await got('connection_ack')
    }
    return { socket, received, closed, send, got }
  }

  test('a viewer holds at most 32 MiB of them, whether as variables, extensions or ids of subscriptions', async () => {
    const mallory = await someone('Mallory')
    const sockets = await Promise.all(Array.from({ length: 2 }, () => open(mallory.authorization)))
    const outcomes = async (from: number, to: number) => {
      const ids = Array.from({ length: to - from }, (_, n) => from + n)
      const long = '.'.repeat(900_000)
      for (const n of ids) {
        const payload = { query: mallory.query, [n % 2 === 0 ? 'variables' : 'extensions']: { unused: long } }
        sockets[n % 2]?.send({ id: String(n), type: 'subscribe', payload })
      }
      return until('each has its outcome', () => {
        const first = ids.map((n) => sockets[n % 2]?.received.find(({ id }) => id === String(n)))
        return first.every((one) => one !== undefined) && first
      })
    }
    const all = await outcomes(0, 50)
    const standing = all.filter(({ type }) => type === 'next').length
    expect(standing).toBe(Math.floor((32 * MIB) / 900_100))
    const refused = all.filter(({ type }) => type === 'error')
    expect(refused).toHaveLength(50 - standing)
    expect(refused[0]?.payload).toMatchObject([{ extensions: { code: 'RATE_LIMITED' } }])

    const bob = await someone('Bob')
    const other = await open(bob.authorization)
    other.send({
      id: '1',
      type: 'subscribe',
      payload: { query: bob.query, variables: { unused: '.'.repeat(900_000) } },
    })
    await other.got('next', '1')

    for (const n of all.flatMap(({ id, type }) => (type === 'next' ? [Number(id)] : [])).slice(0, 2))
      sockets[n % 2]?.send({ id: String(n), type: 'complete' })
    let next = 50
    await until('ended subscriptions leave room', async () => {
      next += 1
      const [outcome] = await outcomes(next, next + 1)
      return outcome?.type === 'next'
    })
    for (const { socket } of [...sockets, other]) socket.terminate()
  })

  test('an operation id of more than 128 characters closes the socket; an event stream refuses the operation', async () => {
    const { authorization } = await someone('Ada')
    const client = await open(authorization)
    const id = 'i'.repeat(128)
    client.send({ id, type: 'subscribe', payload: { query: '{ __typename }' } })
    await client.got('complete', id)
    client.send({ id: `${id}i`, type: 'subscribe', payload: { query: '{ __typename }' } })
    expect(await client.closed).toBe(4400)

    const reserved = await fetch(`${parley.origin}/graphql`, { method: 'PUT', headers: { authorization } })
    const headers = { authorization, 'x-graphql-event-stream-token': await reserved.text() }
    const post = (operationId: string) =>
      fetch(`${parley.origin}/graphql`, {
        method: 'POST',
        headers,
        body: JSON.stringify({ query: '{ __typename }', extensions: { operationId } }),
      })
    expect((await post(id)).status).toBe(202)
    expect((await post(`${id}i`)).status).toBe(400)
  })

  test('a pong repeats a short payload of its ping but not a long one, which counts towards the rate', async () => {
    const { authorization } = await someone('Ada')
    const client = await open(authorization)
    client.send({ type: 'ping', payload: { text: 'echo' } })
    expect(await client.got('pong')).toEqual({ type: 'pong', payload: { text: 'echo' } })
    const payload = { text: '.'.repeat(1_000_000) }
    for (let n = 0; n < 100; n++) client.send({ type: 'ping', payload })
    const pongs = () => client.received.filter(({ type }) => type === 'pong')
    await until('each is answered', () => pongs().length === 101)
    expect(pongs().slice(1)).toEqual(Array(100).fill({ type: 'pong' }))
    client.send({ id: '1', type: 'subscribe', payload: { query: '{ viewer { id } }' } })
    expect((await client.got('error', '1')).payload).toMatchObject([{ extensions: { code: 'RATE_LIMITED' } }])
    client.socket.terminate()
  })

  test('a long message before the acknowledgement closes the socket', async () => {
    const client = await open(null)
    client.send({ type: 'ping', payload: { text: '.'.repeat(70_000) } })
    expect(await client.closed).toBe(4400)
  })

  test('a viewer who exceeds the rate gets 429 for a long body, without anything parsing it', async () => {
    const { human, authorization } = await someone('Ada')
    const post = (body: string) =>
      fetch(`${parley.origin}/graphql`, {
        method: 'POST',
        headers: { authorization, 'content-type': 'application/json' },
        body,
      })
    expect((await post('{'.repeat(300_000))).status).toBe(400)
    await parley.app.domain.rates.take('requests', human, 6001).catch(() => {})
    expect((await post('{'.repeat(300_000))).status).toBe(429)
  })
})

describe('the bytes of requests in progress', () => {
  const rates = { take: async () => {}, refusal: () => null }
  const viewer = (id: string) => ({ id }) as HumanViewer

  test('of all viewers together are limited, but each viewer may always hold a little', () => {
    const { hold } = createRequestBytes(rates, { mostOfViewer: 50, mostInAll: 100, alwaysFree: 10 })
    const releaseFirst = hold(viewer('a'), 50)
    expect(() => hold(viewer('a'), 1)).toThrow(RateLimitedError)
    hold(viewer('b'), 50)
    expect(() => hold(viewer('c'), 11)).toThrow(RateLimitedError)
    hold(viewer('c'), 10)
    releaseFirst()
    releaseFirst()
    hold(viewer('c'), 30)
    expect(() => hold(viewer('d'), 11)).toThrow(RateLimitedError)
  })
})
