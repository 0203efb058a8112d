import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { createStalledSockets, type Stalled } from '../../src/server/sockets/stalled-sockets.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

function socketsOf(sizes: Record<string, number[]>) {
  const closed: string[] = []
  const stalled = createStalledSockets({ mostBytes: 1000, checkEveryMs: 10 })
  const sockets = Object.entries(sizes).flatMap(([viewer, bytes]) =>
    bytes.map(
      (size): Stalled => ({
        viewerId: () => viewer,
        waitingBytes: () => size,
        giveUp: () => void closed.push(`${viewer} ${size}`),
      }),
    ),
  )
  for (const socket of sockets) stalled.add(socket)
  return { stalled, sockets, closed }
}

test('within the budget no socket is closed', () => {
  const { closed } = socketsOf({ ada: [500], bob: [500] })
  vi.advanceTimersByTime(100)
  expect(closed).toEqual([])
})

test('beyond the budget, the viewer with the most buffered bytes loses its fullest sockets, and others lose none', () => {
  const { closed } = socketsOf({ ada: [300], mallory: [100, 400, 400, 300], bob: [250] })
  vi.advanceTimersByTime(10)
  expect(closed).toEqual(['mallory 400', 'mallory 400'])
  vi.advanceTimersByTime(100)
  expect(closed).toHaveLength(2)
})

test('a socket whose client reads again no longer counts', () => {
  const { stalled, sockets, closed } = socketsOf({ mallory: [900, 900] })
  stalled.delete(sockets[0]!)
  vi.advanceTimersByTime(100)
  expect(closed).toEqual([])
  stalled.delete(sockets[1]!)
  expect(vi.getTimerCount()).toBe(0)
})
