import { EventEmitter } from 'node:events'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import type { WebSocket } from 'ws'
import { createLateCloses } from '../../src/server/sockets/late-closes.ts'

const MEBIBYTE = 1024 * 1024

class Socket extends EventEmitter {
  readonly OPEN = 1
  readyState = 1
  bufferedAmount = 0
  close = vi.fn(() => {
    this.readyState = 2
  })
  terminate = vi.fn(() => {
    this.readyState = 3
    this.emit('close')
  })
}

/** Creates a socket whose client does not read, with this many buffered bytes. */
function paused(bytes: number) {
  const socket = new Socket()
  socket.bufferedAmount = bytes
  return socket
}

describe('sockets of clients that do not read', () => {
  beforeEach(() => void vi.useFakeTimers())
  afterEach(() => void vi.useRealTimers())

  const closeAll = (sockets: Socket[], closes = createLateCloses()) => {
    for (const socket of sockets) closes.close(socket as unknown as WebSocket, 1013, 'late')
  }

  test('get a close frame at once, and are terminated after more than 25 s', () => {
    const socket = paused(0)
    closeAll([socket, socket])
    expect(socket.close.mock.calls).toEqual([[1013, 'late']])
    vi.advanceTimersByTime(25_000)
    expect(socket.terminate).not.toHaveBeenCalled()
    vi.advanceTimersByTime(10_000)
    expect(socket.terminate).toHaveBeenCalledTimes(1)
    expect(vi.getTimerCount()).toBe(0)
  })

  test('are not terminated if they have closed', () => {
    const socket = paused(0)
    closeAll([socket])
    socket.emit('close')
    vi.advanceTimersByTime(60_000)
    expect(socket.terminate).not.toHaveBeenCalled()
  })

  test('buffer 64 MiB together at most: the sockets closed first are terminated early', () => {
    const sockets = Array.from({ length: 40 }, () => paused(4 * MEBIBYTE))
    closeAll(sockets)
    const left = sockets.filter(({ terminate }) => terminate.mock.calls.length === 0)
    expect(left).toEqual(sockets.slice(-15))
  })

  test('may be thousands if each buffers little', () => {
    const sockets = Array.from({ length: 5000 }, () => paused(1024))
    closeAll(sockets)
    expect(sockets.every(({ terminate }) => terminate.mock.calls.length === 0)).toBe(true)
  })
})
