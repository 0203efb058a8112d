import { EventEmitter } from 'node:events'
import type { Duplex } from 'node:stream'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest'
import WebSocket from 'ws'
import type { Answer } from '../../src/delivery/answer.ts'
import { newId } from '../../src/lib/ids.ts'
import { SocketWriter } from '../../src/server/sockets/socket-writer.ts'
import { figure, scrape } from '../support/figures.ts'
import { startTestServer, type TestServer } from '../support/served.ts'
import { until } from '../support/until.ts'

const MEBIBYTE = 1024 * 1024
/** The server pings a client after this many texts. */
const TEXTS_A_PING = 250
/** Longer than a client may take to respond. */
const LONG_MS = 5000

class Socket extends EventEmitter {
  readonly OPEN = 1
  readyState = 1
  bufferedAmount = 0
  ping = vi.fn()
  send = vi.fn()
}

class Transport extends EventEmitter {
  writableNeedDrain = false
  write = vi.fn()
  cork = vi.fn()
  uncork = vi.fn()
}

const ANSWER: Answer = { text: '{"data":1}', errors: [], hasData: true, versions: { from: 0, to: 0 } }

/** Creates the writer to a client with this many subscriptions. The operating system accepts everything that is written. */
function written(count: number) {
  const socket = new Socket()
  const subscriptions = new Map(Array.from({ length: count }, (_, n) => [String(n), {}]))
  const onFull = vi.fn(() => {
    socket.readyState = 2
  })
  const schedule = { next: () => {}, atEnd: (flush: () => void) => flush() }
  const stalled = { add: () => {}, delete: () => {} }
  const parts = { schedule, onFull, subscriptions, stalled, viewerId: () => 'hum_1' }
  const writer = new SocketWriter(socket as unknown as WebSocket, new Transport() as unknown as Duplex, parts)
  const sinks = Array.from({ length: Math.max(count, 1) }, (_, n) => writer.sinkOf(String(n)))
  let told = 0
  return {
    socket,
    subscriptions,
    onFull,
    /** Writes to the subscriptions in turn, this many times in total. */
    tell(answers: number) {
      for (const until = told + answers; told < until; told++) sinks[told % sinks.length]!.send([ANSWER])
    },
    /** Answers one of the client's pings with a text of this length. */
    pong: (characters: number) => writer.send('x'.repeat(characters), () => {}),
  }
}

describe('the unread output of a client', () => {
  beforeEach(() => {
    vi.useFakeTimers()
    vi.spyOn(Math, 'random').mockReturnValue(0)
  })
  afterEach(() => void vi.useRealTimers())

  test('triggers a ping after a number of texts, across subscriptions, and no second one before the pong', () => {
    const { socket, tell } = written(7)
    tell(TEXTS_A_PING - 1)
    expect(socket.ping).not.toHaveBeenCalled()
    tell(1)
    expect(socket.ping).toHaveBeenCalledTimes(1)
    tell(2 * TEXTS_A_PING)
    expect(socket.ping).toHaveBeenCalledTimes(1)
    socket.emit('pong')
    tell(1)
    expect(socket.ping).toHaveBeenCalledTimes(2)
  })

  test('triggers a ping after 1 MiB too, including responses to the client’s own long pings', () => {
    const { socket, pong } = written(7)
    pong(MEBIBYTE / 2)
    expect(socket.ping).not.toHaveBeenCalled()
    pong(MEBIBYTE / 2)
    expect(socket.ping).toHaveBeenCalledTimes(1)
  })

  test.each([
    [0, 1000],
    [1, 1000],
    [20, 20_000],
  ])('is limited to a thousand texts per subscription: with %d of them %d', (count, most) => {
    const { onFull, tell } = written(count)
    tell(TEXTS_A_PING)
    vi.advanceTimersByTime(LONG_MS)
    tell(most)
    expect(onFull).not.toHaveBeenCalled()
    tell(1)
    expect(onFull).toHaveBeenCalledTimes(1)
  })

  test('has a lower limit once some subscriptions have ended', () => {
    const { onFull, tell, subscriptions } = written(20)
    tell(TEXTS_A_PING)
    vi.advanceTimersByTime(LONG_MS)
    tell(5000)
    expect(onFull).not.toHaveBeenCalled()
    for (let n = 5; n < 20; n++) subscriptions.delete(String(n))
    tell(1)
    expect(onFull).toHaveBeenCalledTimes(1)
  })

  test('is limited to 4 MiB in total for any number of subscriptions, including responses to pings', () => {
    const { onFull, tell, pong } = written(100)
    tell(TEXTS_A_PING)
    vi.advanceTimersByTime(LONG_MS)
    for (let n = 0; n < 4; n++) pong(MEBIBYTE)
    expect(onFull).not.toHaveBeenCalled()
    tell(1)
    expect(onFull).toHaveBeenCalledTimes(1)
  })

  test('has no limit for four seconds after the ping', () => {
    const { onFull, tell } = written(3)
    tell(TEXTS_A_PING)
    vi.advanceTimersByTime(3900)
    tell(50_000)
    expect(onFull).not.toHaveBeenCalled()
    vi.advanceTimersByTime(200)
    tell(1)
    expect(onFull).toHaveBeenCalledTimes(1)
  })

  test('is never full for a client that sends pongs, however much it subscribes to and sends', () => {
    const { socket, onFull, tell, pong } = written(3)
    socket.ping.mockImplementation(() => setTimeout(() => socket.emit('pong'), 3000))
    for (let round = 0; round < 20; round++) {
      tell(2000)
      pong(MEBIBYTE)
      vi.advanceTimersByTime(LONG_MS)
    }
    expect(onFull).not.toHaveBeenCalled()
    expect(socket.ping.mock.calls.length).toBeGreaterThan(10)
  })
})

describe('two clients with five subscriptions each', () => {
  const IDS = ['1', '2', '3', '4', '5']
  const LONG_PING = { type: 'ping', payload: { text: 'é'.repeat(50_000) } }
  let parley: TestServer
  beforeAll(async () => {
    parley = await startTestServer({ worker: false })
  })
  afterAll(() => parley?.close())

  async function open(authorization: string, query: string) {
    const socket = new WebSocket(`${parley.origin.replace('http', 'ws')}/graphql`, 'graphql-transport-ws')
    const client = { socket, events: new Map<string, number>(), pongs: 0, code: 0 }
    const { events } = client
    const send = (message: object) => socket.send(JSON.stringify(message))
    socket.once('close', (code) => {
      client.code = code
    })
    socket.on('message', (data) => {
      const message = JSON.parse(String(data))
      if (message.type === 'connection_ack') for (const id of IDS) send({ id, type: 'subscribe', payload: { query } })
      if (message.type === 'next') events.set(message.id, (events.get(message.id) ?? 0) + 1)
      if (message.type === 'pong') client.pongs += 1
    })
    socket.once('open', () => send({ type: 'connection_init', payload: { authorization } }))
    await until('all its subscriptions are active', () => events.size === IDS.length)
    return { client, send }
  }

  test('the client that stopped reading is closed with 1013; the client that sends long pings and reads gets everything', async () => {
    const ada = await parley.human('Ada')
    const space = await parley.space(ada, [])
    const authorization = `Bearer ${await parley.tokenOf(ada)}`
    const query = `subscription { spaceMessages(spaceId: "${space.id}") { __typename ... on MessageTextDelta { delta } } }`
    const { client: stopped } = await open(authorization, query)
    const { client: reading, send } = await open(authorization, query)
    stopped.socket.pause()
    const { log } = parley.app.platform
    const delta = { type: 'MessageTextDelta', messageId: newId('msg'), partIndex: 0, delta: '.' }
    let [offset, pings] = [0, 0]
    await until('one client is disconnected', async () => {
      for (let n = 0; n < 10; n++, offset++) await log.append(`space:${space.id}`, { ...delta, offset })
      send(LONG_PING)
      pings += 1
      return figure(await scrape(parley.origin), 'parley_sockets') === 1
    })
    stopped.socket.resume()
    await until('the client gets the close code', () => stopped.code === 1013)
    await until('the other has every pong', () => reading.pongs === pings)
    await until('and every event', () => IDS.every((id) => reading.events.get(id) === 1 + offset))
    expect(reading.socket.readyState).toBe(WebSocket.OPEN)
    reading.socket.terminate()
  })
})
