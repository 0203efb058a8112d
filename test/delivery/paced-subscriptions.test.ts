import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import WebSocket from 'ws'
import type { HumanViewer } from '../../src/access/viewer.ts'
import { newId } from '../../src/lib/ids.ts'
import { startTestServer, type TestServer } from '../support/served.ts'
import { until } from '../support/until.ts'

/** An event that uses more than the whole budget of these tests. */
const LARGE = 'x'.repeat(100_000)
/** How long a later event is delayed, in ms. */
const RELEASE_MS = 2500
const PACING = { burst: 30_000, perSecond: (100_000 - 16_384 - 15_000) / (RELEASE_MS / 1000) }

type Event = { __typename: string; cursor: string; offset?: number; delta?: string }

describe('a subscription that exceeds the pace of its viewer', () => {
  let parley: TestServer
  const sockets: WebSocket[] = []
  beforeAll(async () => {
    parley = await startTestServer({ worker: false, pacing: PACING })
  })
  afterAll(async () => {
    for (const socket of sockets) socket.terminate()
    await parley?.close()
  })

  async function room() {
    const ada = await parley.human('Ada')
    const bob = await parley.human('Bob')
    const memberIds = [ada.id, bob.id]
    const { id } = await parley.app.domain.spaces.create(parley.admin, {
      name: 'Room',
      routing: 'BROADCAST',
      memberIds,
    })
    return { ada, bob, spaceId: id }
  }
  /** Creates a message that only has deltas. */
  function draft(spaceId: string) {
    const messageId = newId('msg')
    let offset = 0
    return async (delta: string) => {
      const event = { type: 'MessageTextDelta', messageId, partIndex: 0, offset, delta }
      offset += delta.length
      await parley.app.platform.log.append(`space:${spaceId}`, event)
    }
  }
  const queryOf = (spaceId: string, after: string | null = null, alias = 'e') =>
    `subscription { ${alias}: spaceMessages(spaceId: "${spaceId}"${after === null ? '' : `, after: "${after}"`}) {
      __typename cursor ... on MessageTextDelta { offset delta } } }`

  /** Opens a plain socket, which reports close codes. */
  async function follow(human: HumanViewer, query: string) {
    const socket = new WebSocket(`${parley.origin.replace('http', 'ws')}/graphql`, 'graphql-transport-ws')
    sockets.push(socket)
    const seen: Event[] = []
    const follower = { socket, seen, code: null as number | null }
    socket.on('close', (code) => {
      follower.code = code
    })
    socket.on('message', (data) => {
      const { type, payload } = JSON.parse(String(data))
      if (type === 'connection_ack') socket.send(JSON.stringify({ id: '1', type: 'subscribe', payload: { query } }))
      if (type === 'next') seen.push(Object.values(payload.data)[0] as Event)
    })
    const opened = new Promise((resolve) => socket.once('open', resolve))
    const authorization = `Bearer ${await parley.tokenOf(human)}`
    await opened
    socket.send(JSON.stringify({ type: 'connection_init', payload: { authorization } }))
    if (!query.includes('after:')) await until('the subscription is active', () => seen.length > 0)
    return follower
  }
  const textOf = (seen: readonly Event[]) => seen.map(({ delta = '' }) => delta).join('')

  test('is delayed, and its events are merged; other viewers with the same or a similar operation are served at once', async () => {
    const { ada, bob, spaceId } = await room()
    const elsewhere = await parley.space(ada, [])
    const spent = await follow(ada, queryOf(elsewhere.id))
    await draft(elsewhere.id)(LARGE)
    await until('she has spent her budget', () => spent.seen.length === 2)
    const late = await follow(ada, queryOf(spaceId))
    const same = await follow(bob, queryOf(spaceId))
    const write = draft(spaceId)
    const medium = 'y'.repeat(20_000)
    const beganAt = performance.now()
    await write(medium)
    for (let n = 0; n < 100; n++) await write('z')
    await until('he has all events', () => textOf(same.seen).length === 20_100)
    expect(textOf(late.seen)).toBe('')
    await until('she has all events', () => textOf(late.seen).length === 20_100)
    expect(performance.now() - beganAt).toBeGreaterThan(RELEASE_MS / 3)
    expect(textOf(late.seen)).toBe(textOf(same.seen))
    expect(same.seen.length).toBe(102)
    expect(late.seen.length).toBeLessThan(20)
    // Other subscriptions of the viewer have used much, but this does not delay a small event.
    await draft(elsewhere.id)(LARGE)
    const other = await follow(ada, queryOf(spaceId, null, 'f'))
    await write('!')
    await until('the event arrives at once', () => other.seen.at(-1)?.delta === '!', { timeoutMs: 1000 })
  })

  test('gets a snapshot instead of its waiting events if there are very many', async () => {
    const { ada, spaceId } = await room()
    const late = await follow(ada, queryOf(spaceId))
    const write = draft(spaceId)
    await write(LARGE)
    await until('the budget is spent', () => late.seen.length === 2)
    await write(LARGE)
    for (let n = 0; n < 700; n++) await draft(spaceId)('z')
    await until(
      'the subscription continues',
      () => late.seen.filter(({ __typename }) => __typename === 'SpaceSnapshot').length === 2,
    )
    expect(late.seen.length).toBeLessThan(500)
    const snapshot = late.seen.findLast(({ __typename }) => __typename === 'SpaceSnapshot')
    await write('the next')
    await until('the subscription is live again', () => late.seen.at(-1)?.delta === 'the next')
    const resumed = await follow(ada, queryOf(spaceId, snapshot!.cursor))
    await until('no event is missing', () => resumed.seen.at(-1)?.delta === 'the next')
  })

  test('ends with 1013 if a thousand events wait, and resumes by its cursor without a gap or a duplicate', async () => {
    const { bob, spaceId } = await room()
    const write = draft(spaceId)
    const late = await follow(bob, queryOf(spaceId))
    for (let n = 0; n < 3; n++) await write(LARGE)
    await until('the subscription has started', () => late.seen.length > 1)
    let written = 0
    await until('the socket is closed', async () => {
      for (let n = 0; n < 200; n++, written++) await draft(spaceId)('z')
      return late.code !== null
    })
    expect(late.code).toBe(1013)
    expect(written).toBeLessThan(5000)
    const again = await follow(bob, queryOf(spaceId, late.seen.at(-1)!.cursor))
    await write('end')
    await until('the watcher has the rest', () => again.seen.at(-1)?.delta === 'end', { timeoutMs: 60_000 })
    const all = [...late.seen, ...again.seen]
    expect(new Set(all.map(({ cursor }) => cursor)).size).toBe(all.length)
    expect(textOf(all)).toBe(`${LARGE.repeat(3)}${'z'.repeat(written)}end`)
  })

  test('ends with RATE_LIMITED and a retry time on an event stream, and resumes by its cursor', async () => {
    const { ada, bob, spaceId } = await room()
    const write = draft(spaceId)
    const open = async (human: HumanViewer, query: string) => {
      const response = await fetch(`${parley.origin}/graphql`, {
        method: 'POST',
        headers: {
          accept: 'text/event-stream',
          'content-type': 'application/json',
          authorization: `Bearer ${await parley.tokenOf(human)}`,
        },
        body: JSON.stringify({ query }),
      })
      const stream = { text: '', isOver: false }
      void (async () => {
        for await (const part of response.body!.pipeThrough(new TextDecoderStream())) stream.text += part
        stream.isOver = true
      })().catch(() => {})
      return stream
    }
    const stream = await open(ada, queryOf(spaceId))
    const watcher = await follow(bob, queryOf(spaceId))
    await until('the subscription is active', () => stream.text.includes('SpaceSnapshot'))
    for (let n = 0; n < 3; n++) await write(LARGE)
    await until('the stream has ended', async () => {
      for (let n = 0; n < 200; n++) await draft(spaceId)('z')
      return stream.isOver
    })
    const ended = stream.text.split('\n').filter((line) => line.startsWith('data: {'))
    const [error] = JSON.parse(ended.at(-1)!.slice('data: '.length)).errors
    expect(error.extensions).toMatchObject({ code: 'RATE_LIMITED', retryAfterMs: expect.any(Number) })
    expect(error.extensions.retryAfterMs).toBeGreaterThanOrEqual(1000)
    const { cursor } = JSON.parse(ended.at(-2)!.slice('data: '.length)).data.e
    const again = await open(ada, queryOf(spaceId, cursor))
    await write('end')
    await until('the watcher has the rest', () => again.text.includes('"end"'), { timeoutMs: 60_000 })
    expect(watcher.seen.length).toBeGreaterThan(0)
  })
})
