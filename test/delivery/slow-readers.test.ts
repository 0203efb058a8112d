import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import WebSocket from 'ws'
import { newId } from '../../src/lib/ids.ts'
import { runsOf } from '../support/effort.ts'
import { collectGarbage } from '../support/heap.ts'
import { startTestServer, type TestServer } from '../support/served.ts'
import { until } from '../support/until.ts'

/** The long form of the test has 500 readers and 50 paused ones. */
const SCALE = runsOf({ usual: 1, nightly: 10 })
const READERS = 50 * SCALE
const PAUSED = 5 * SCALE
const CALM_EVENTS = 100
const MOST_EVENTS = 5000
const DELTA = 'x'.repeat(8000)
const MEBIBYTE = 1024 * 1024
/**
 * The memory limit for clients that do not read: 100 MiB for 50 of them. In a test process, a smaller increase could not be
 * measured reliably.
 */
const MOST_MEBIBYTES = Math.max(20, 2 * PAUSED)

/** Returns the MiB in use after a full garbage collection. */
function mebibytesUsed(): number {
  collectGarbage()
  const { heapUsed, external } = process.memoryUsage()
  return (heapUsed + external) / MEBIBYTE
}

/** Starts a client that counts its events and discards them. */
async function openReader(origin: string, authorization: string, query: string) {
  const socket = new WebSocket(`${origin.replace('http', 'ws')}/graphql`, 'graphql-transport-ws')
  const reader = { socket, events: 0, onEvent: () => {}, closed: 0 }
  const closed = new Promise<number>((resolve) => socket.once('close', resolve))
  await new Promise((resolve) => socket.once('open', resolve))
  const begun = new Promise<void>((resolve) => {
    socket.on('message', (data) => {
      const text = String(data).slice(0, 60)
      if (text.includes('connection_ack'))
        socket.send(JSON.stringify({ id: '1', type: 'subscribe', payload: { query } }))
      if (!text.includes('"next"')) return
      reader.events += 1
      reader.onEvent()
      resolve()
    })
  })
  socket.send(JSON.stringify({ type: 'connection_init', payload: { authorization } }))
  await begun
  return { reader, closed }
}

/** Returns the number of open sockets, from the server's metrics. */
async function socketsOpen(origin: string): Promise<number> {
  const text = await (await fetch(`${origin}/metrics`)).text()
  return Number(/^parley_sockets (\d+)/m.exec(text)?.[1])
}

describe('clients that do not read', () => {
  let parley: TestServer
  beforeAll(async () => {
    // On a busy machine, a paused client can miss its pings before it is too far behind.
    parley = await startTestServer({ stack: 'embedded', worker: false, keepAliveMs: 120_000 })
  })
  afterAll(() => parley?.close())

  test('are disconnected, do not delay others, and use no more memory than their budget', {
    timeout: 120_000,
  }, async () => {
    const human = await parley.human('Ada')
    const space = await parley.space(human, [])
    const authorization = `Bearer ${await parley.tokenOf(human)}`
    const query = `subscription { spaceMessages(spaceId: "${space.id}") { __typename ... on MessageTextDelta { delta } } }`
    const opened = []
    for (let n = 0; n < READERS; n++) opened.push(await openReader(parley.origin, authorization, query))
    const paused = opened.slice(0, PAUSED)
    const quick = opened.slice(PAUSED).map(({ reader }) => reader)
    const messageId = newId('msg')
    let events = 0
    const before = mebibytesUsed()
    let most = 0
    /** Publishes one event. Returns the time until every reading client has received it, in ms. */
    async function tell(): Promise<number> {
      const arrived = Promise.all(quick.map((reader) => new Promise<void>((resolve) => (reader.onEvent = resolve))))
      const startedAt = performance.now()
      const event = { type: 'MessageTextDelta', messageId, partIndex: 0, offset: events * DELTA.length, delta: DELTA }
      await parley.app.platform.log.append(`space:${space.id}`, event)
      await arrived
      events += 1
      return performance.now() - startedAt
    }

    const calm: number[] = []
    while (events < CALM_EVENTS) calm.push(await tell())
    for (const { reader } of paused) reader.socket.pause()
    const delays: number[] = []
    while (events < MOST_EVENTS) {
      delays.push(await tell())
      if (events % 100 !== 0) continue
      const logged = (events * DELTA.length) / MEBIBYTE
      most = Math.max(most, mebibytesUsed() - before - logged)
      if ((await socketsOpen(parley.origin)) === READERS - PAUSED) break
    }
    await until(
      'the paused clients are disconnected',
      async () => (await socketsOpen(parley.origin)) === READERS - PAUSED,
    )
    // On a busy machine, the same clients are equally slow without paused ones.
    expect(p99Of(delays)).toBeLessThan(Math.max(250, 3 * p99Of(calm)))
    expect(most).toBeLessThan(MOST_MEBIBYTES)
    expect(quick.every(({ socket, events: seen }) => socket.readyState === WebSocket.OPEN && seen === events + 1)).toBe(
      true,
    )
    for (const { reader } of paused) reader.socket.resume()
    for (const { closed } of paused) expect(await closed).toBe(1013)
    for (const { socket } of quick) socket.terminate()
  })
})

describe('a client that stops reading', () => {
  test('is closed with 1013 within 10 s, even if its unread bytes fit into the system’s buffers', {
    timeout: 60_000,
  }, async () => {
    const parley = await startTestServer({ stack: 'embedded', worker: false })
    const human = await parley.human('Ada')
    const space = await parley.space(human, [])
    const query = `subscription { spaceMessages(spaceId: "${space.id}") { __typename ... on MessageTextDelta { delta } } }`
    const { reader, closed } = await openReader(parley.origin, `Bearer ${await parley.tokenOf(human)}`, query)
    const messageId = newId('msg')
    const stoppedAt = performance.now()
    reader.socket.pause()
    let offset = 0
    await until('the client is disconnected', async () => {
      for (let n = 0; n < 100; n++, offset++) {
        const delta = { type: 'MessageTextDelta', messageId, partIndex: 0, offset, delta: '.' }
        await parley.app.platform.log.append(`space:${space.id}`, delta)
      }
      return (await socketsOpen(parley.origin)) === 0
    })
    expect(performance.now() - stoppedAt).toBeLessThan(10_000)
    reader.socket.resume()
    expect(await closed).toBe(1013)
    await parley.close()
  })
})

describe('a client whose events the server itself delays', () => {
  test('gets every event, however many arrive at once', { timeout: 60_000 }, async () => {
    const parley = await startTestServer({ stack: 'embedded', worker: false })
    const human = await parley.human('Ada')
    const space = await parley.space(human, [])
    const query = `subscription { spaceMessages(spaceId: "${space.id}") { __typename ... on MessageTextDelta { delta } } }`
    const { reader } = await openReader(parley.origin, `Bearer ${await parley.tokenOf(human)}`, query)
    const messageId = newId('msg')
    const append = (offset: number) =>
      parley.app.platform.log.append(`space:${space.id}`, {
        type: 'MessageTextDelta',
        messageId,
        partIndex: 0,
        offset,
        delta: '.',
      })
    await append(0)
    await until('the client keeps up', () => reader.events === 2)
    // Publish all events in one tick, so that no client has had a turn to read any of them.
    await Promise.all(Array.from({ length: 3000 }, (_, n) => append(n + 1)))
    // Publish more before the client has received most of them.
    for (let n = 3001; n <= 3050; n++) {
      await append(n)
      await new Promise((resolve) => setImmediate(resolve))
    }
    await until(
      'the client has all events',
      () => reader.events === 3052 || reader.socket.readyState !== WebSocket.OPEN,
    )
    expect(reader.events).toBe(3052)
    expect(reader.socket.readyState).toBe(WebSocket.OPEN)
    reader.socket.terminate()
    await parley.close()
  })
})

describe('a client that is slow to read the close code', () => {
  test('still gets 1013 when it continues to read, long after its ping', {
    timeout: 60_000,
  }, async () => {
    const parley = await startTestServer({ stack: 'embedded', worker: false, keepAliveMs: 4000 })
    const human = await parley.human('Ada')
    const space = await parley.space(human, [])
    const query = `subscription { spaceMessages(spaceId: "${space.id}") { __typename ... on MessageTextDelta { delta } } }`
    const { reader, closed } = await openReader(parley.origin, `Bearer ${await parley.tokenOf(human)}`, query)
    const watcher = await openReader(parley.origin, `Bearer ${await parley.tokenOf(human)}`, query)
    const asked: unknown[] = []
    watcher.reader.socket.on('ping', () => asked.push(1))
    const messageId = newId('msg')
    reader.socket.pause()
    await until('the client is disconnected', async () => {
      const delta = { type: 'MessageTextDelta', messageId, partIndex: 0, offset: 0, delta: DELTA }
      for (let n = 0; n < 50; n++) await parley.app.platform.log.append(`space:${space.id}`, delta)
      return (await socketsOpen(parley.origin)) === 1
    })
    const before = asked.length
    await until('the others were pinged twice', () => asked.length >= before + 2)
    reader.socket.resume()
    expect(await closed).toBe(1013)
    watcher.reader.socket.terminate()
    await parley.close()
  })
})

describe('a client that pauses and resumes', () => {
  test.each([
    ['nothing', 0, 1],
    ['little', 5, 'x'],
    ['a flood of large events', 200, DELTA],
  ])(
    'gets 1013 and never 1006, even if it missed its pings, with %s waiting for it',
    {
      timeout: 60_000,
    },
    async (_, events, delta) => {
      const parley = await startTestServer({ stack: 'embedded', worker: false, keepAliveMs: 3000 })
      const human = await parley.human('Ada')
      const space = await parley.space(human, [])
      const query = `subscription { spaceMessages(spaceId: "${space.id}") { __typename ... on MessageTextDelta { delta } } }`
      const { reader, closed } = await openReader(parley.origin, `Bearer ${await parley.tokenOf(human)}`, query)
      reader.socket.pause()
      await until('the server has closed the socket', async () => {
        for (let n = 0; n < events; n++) {
          const event = { type: 'MessageTextDelta', messageId: newId('msg'), partIndex: 0, offset: 0, delta }
          await parley.app.platform.log.append(`space:${space.id}`, event)
        }
        return (await socketsOpen(parley.origin)) === 0
      })
      // The pause must be longer than any other close waits for its response.
      await new Promise((resolve) => setTimeout(resolve, 6000))
      reader.socket.resume()
      expect(await closed).toBe(1013)
      await parley.close()
    },
  )
})

function p99Of(times: number[]): number {
  return times.toSorted((a, b) => a - b)[Math.floor(times.length * 0.99)] ?? 0
}
