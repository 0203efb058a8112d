import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest'
import WebSocket from 'ws'
import { newId } from '../../src/lib/ids.ts'
import { SocketWriter } from '../../src/server/sockets/socket-writer.ts'
import { startTestServer, type TestServer } from '../support/served.ts'
import { until } from '../support/until.ts'

const SOCKETS = 600
const MISSED = 20
/** Twice as many subscribers as one tick serves, because some of the first ones continue at once. */
const MOST_A_ROUND = 32
const WATCH = `subscription ($spaceId: ID!, $after: StreamCursor) { spaceMessages(spaceId: $spaceId, after: $after) {
  __typename cursor ... on MessageTextDelta { offset } ... on SpaceSnapshot { space { name } }
} }`

interface Watcher {
  socket: WebSocket
  /** The number of the subscriber's current subscription. Its subscriptions follow each other. */
  number: number
  // biome-ignore lint/suspicious/noExplicitAny: assertions read fields that are not typed
  seen: any[]
}

describe(`${SOCKETS} sockets that reconnect at the same time`, () => {
  let parley: TestServer
  let spaceId: string
  let token: string
  const watchers: Watcher[] = []

  beforeAll(async () => {
    parley = await startTestServer({ stack: 'embedded', worker: false, settings: { PARLEY_RATE_REQUESTS: '0' } })
    const ada = await parley.human('Ada')
    spaceId = (await parley.space(ada, [])).id
    token = await parley.tokenOf(ada)
    for (let n = 0; n < SOCKETS; n++) open()
    await until(
      'all are subscribed',
      () => watchers.length === SOCKETS && watchers.every(({ seen }) => seen.length === 1),
    )
  })
  afterEach(() => vi.restoreAllMocks())
  afterAll(async () => {
    for (const { socket } of watchers) socket.terminate()
    await parley?.close()
  })

  function open(): void {
    const socket = new WebSocket(`${parley.origin.replace('http', 'ws')}/graphql`, 'graphql-transport-ws')
    const watcher: Watcher = { socket, number: 0, seen: [] }
    watchers.push(watcher)
    socket.on('message', (data) => {
      const { type, id, payload } = JSON.parse(String(data))
      if (type === 'connection_ack') subscribe(watcher)
      if (type === 'next' && id === String(watcher.number)) watcher.seen.push(payload.data.spaceMessages)
    })
    const init = { type: 'connection_init', payload: { authorization: `Bearer ${token}` } }
    socket.once('open', () => socket.send(JSON.stringify(init)))
  }

  /** Replaces the previous subscription of the subscriber. */
  function subscribe(watcher: Watcher, after?: string): void {
    if (watcher.number > 0) stop(watcher)
    watcher.number += 1
    watcher.seen = []
    const payload = { query: WATCH, variables: { spaceId, after } }
    watcher.socket.send(JSON.stringify({ id: String(watcher.number), type: 'subscribe', payload }))
  }

  function stop({ socket, number }: Watcher): void {
    socket.send(JSON.stringify({ id: String(number), type: 'complete' }))
  }

  /** Counts how many subscribers each tick serves, until the counter is stopped. */
  function countRounds() {
    const rounds: number[] = [0]
    const answer = vi.spyOn(SocketWriter.prototype, 'answer')
    let immediate = setImmediate(function look() {
      rounds.push(answer.mock.calls.length)
      answer.mockClear()
      immediate = setImmediate(look)
    })
    return {
      rounds,
      stop() {
        clearImmediate(immediate)
        answer.mockRestore()
      },
    }
  }

  test('get missed events a few at a time, and the server handles other work in between', async () => {
    const { cursor } = watchers[0]!.seen[0]
    const delta = { type: 'MessageTextDelta', messageId: newId('msg'), partIndex: 0, delta: '.' }
    for (let offset = 0; offset < MISSED; offset++)
      await parley.app.platform.log.append(`space:${spaceId}`, { ...delta, offset })
    await until('all have the events', () => watchers.every(({ seen }) => seen.length === 1 + MISSED))
    const { rounds, stop } = countRounds()
    for (const watcher of watchers) subscribe(watcher, cursor)
    await until('all have the missed events', () => watchers.every(({ seen }) => seen.length === MISSED))
    stop()
    expect(rounds.reduce((sum, count) => sum + count, 0)).toBe(SOCKETS)
    expect(Math.max(...rounds)).toBeLessThanOrEqual(MOST_A_ROUND)
    const offsets = Array.from({ length: MISSED }, (_, offset) => offset)
    for (const { seen } of watchers) expect(seen.map(({ offset }) => offset)).toEqual(offsets)
  })

  test('get the snapshot that they all wait for a few at a time too', async () => {
    const { log } = parley.app.platform
    for (const watcher of watchers) stop(watcher)
    await until('there are no subscribers', () => log.stats().followers === 0)
    const { promise: found, resolve } = Promise.withResolvers<void>()
    const { getMany } = parley.app.domain.spaces
    vi.spyOn(parley.app.domain.spaces, 'getMany').mockImplementation(async (ids) => {
      await found
      return getMany(ids)
    })
    const { rounds, stop: stopCounting } = countRounds()
    for (const watcher of watchers) subscribe(watcher)
    await until('all are subscribed', () => log.stats().followers === SOCKETS)
    // Waits until each subscriber has had its turn to read, a few in each tick.
    for (let round = 0; round < SOCKETS; round++) await new Promise((next) => setImmediate(next))
    resolve()
    await until('all have a snapshot', () => watchers.every(({ seen }) => seen.length === 1))
    stopCounting()
    expect(rounds.reduce((sum, count) => sum + count, 0)).toBe(SOCKETS)
    expect(Math.max(...rounds)).toBeLessThanOrEqual(MOST_A_ROUND)
    for (const { seen } of watchers)
      expect(seen).toMatchObject([{ __typename: 'SpaceSnapshot', space: { name: expect.any(String) } }])
  })
})
