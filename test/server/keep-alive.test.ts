import { EventEmitter } from 'node:events'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import type { WebSocket } from 'ws'
import { createKeepAlive } from '../../src/server/sockets/keep-alive.ts'

class Socket extends EventEmitter {
  readonly OPEN = 1
  readyState = 1
  ping = vi.fn()
}

const EVERY_MS = 12_000

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

/** Opens this many sockets with pings. */
function watched(count: number) {
  const silent = vi.fn()
  const keepAlive = createKeepAlive(EVERY_MS, silent)
  const sockets = Array.from({ length: count }, () => new Socket())
  for (const socket of sockets) keepAlive.watch(socket as unknown as WebSocket)
  return { sockets, silent }
}

test('the server pings each socket once per interval, spread over time', () => {
  const { sockets } = watched(24)
  const asked = () => sockets.reduce((sum, { ping }) => sum + ping.mock.calls.length, 0)
  for (let second = 1; second <= 12; second++) {
    vi.advanceTimersByTime(1000)
    expect(asked()).toBe(2 * second)
  }
  expect(sockets.every(({ ping }) => ping.mock.calls.length === 1)).toBe(true)
})

test('a socket that misses its pong by the next ping is closed; a closing socket gets no ping', () => {
  const { sockets, silent } = watched(3)
  const [answers, paused, closing] = sockets as [Socket, Socket, Socket]
  answers.ping.mockImplementation(() => answers.emit('pong'))
  closing.readyState = 2
  vi.advanceTimersByTime(2 * EVERY_MS)
  expect(answers.ping).toHaveBeenCalledTimes(2)
  expect(silent.mock.calls).toEqual([[paused]])
  expect(closing.ping).not.toHaveBeenCalled()
})

test('a closed socket gets no further ping', () => {
  const [gone] = watched(1).sockets as [Socket]
  gone.emit('close')
  vi.advanceTimersByTime(EVERY_MS)
  expect(gone.ping).not.toHaveBeenCalled()
})
