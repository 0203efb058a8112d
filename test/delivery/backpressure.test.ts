import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { createPaces, FREE_CHARACTERS, largeCharactersOf } from '../../src/delivery/backpressure.ts'

const SECOND = 1000
const options = { burst: 1000, perSecond: 100, longestDelayMs: 60_000 }
const forever = new AbortController().signal

describe('the pace of a viewer', () => {
  beforeEach(() => void vi.useFakeTimers())
  afterEach(() => void vi.useRealTimers())

  /** Records whether a turn comes, and when, in seconds. */
  function turnOf({ turn }: { turn(signal: AbortSignal): Promise<boolean> }, signal = forever) {
    const beganAt = performance.now()
    const result: { at?: number; has?: boolean } = {}
    void turn(signal).then((has) => {
      result.at = Math.round((performance.now() - beganAt) / SECOND)
      result.has = has
    })
    return result
  }

  test.each([
    [0, 0],
    [FREE_CHARACTERS, 0],
    [FREE_CHARACTERS + 1, 1],
  ])('an event of %d characters counts as %d', (length, counted) => {
    expect(largeCharactersOf({ text: 'x'.repeat(length) })).toBe(counted)
  })

  test('allows a burst, then delays large events until half of the bucket is free again', async () => {
    const { pace } = createPaces(options).join('ada')
    for (let n = 0; n < 10; n++) expect(pace.take(100)).toBe(true)
    expect(pace.isHeld).toBe(false)
    expect(pace.take(100)).toBe(true)
    expect(pace.isHeld).toBe(true)
    expect(pace.take(100)).toBe(false)
    expect(pace.take(0)).toBe(true)
    const turn = turnOf(pace)
    await vi.advanceTimersByTimeAsync(30 * SECOND)
    expect(turn).toEqual({ at: 6, has: true })
    expect(pace.isHeld).toBe(false)
  })

  test('is shared by the subscriptions of one viewer, which take turns, and by nobody else', async () => {
    const paces = createPaces(options)
    const [first, second] = [paces.join('ada').pace, paces.join('ada').pace]
    const other = paces.join('bob').pace
    first.spend(1100)
    expect(second.take(1)).toBe(false)
    expect(other.take(1000)).toBe(true)
    const turns = [turnOf(first), turnOf(second)]
    await vi.advanceTimersByTimeAsync(5 * SECOND)
    expect(turns).toEqual([{}, {}])
    await vi.advanceTimersByTimeAsync(SECOND + 5)
    expect(turns[0]).toMatchObject({ has: true })
    first.spend(1000)
    await vi.advanceTimersByTimeAsync(5 * SECOND)
    expect(turns[1]).toEqual({})
    await vi.advanceTimersByTimeAsync(6 * SECOND)
    expect(turns[1]).toMatchObject({ has: true })
  })

  test('delays one event for a minute at most', async () => {
    const { pace } = createPaces(options).join('ada')
    pace.spend(100_000)
    const turn = turnOf(pace)
    await vi.advanceTimersByTimeAsync(61 * SECOND)
    expect(turn).toEqual({ at: 60, has: false })
    expect(pace.retryAfterMs()).toBeGreaterThan(900 * SECOND)
  })

  test('ends a wait when its subscription ends', async () => {
    const { pace } = createPaces(options).join('ada')
    pace.spend(100_000)
    const end = new AbortController()
    const turn = turnOf(pace, end.signal)
    await vi.advanceTimersByTimeAsync(SECOND)
    end.abort()
    await vi.advanceTimersByTimeAsync(0)
    expect(turn).toMatchObject({ at: 1 })
    expect(vi.getTimerCount()).toBeLessThanOrEqual(1)
  })

  test('is not reset by ending all subscriptions and starting another, and is dropped once it is full again', async () => {
    const paces = createPaces(options)
    const { pace, leave } = paces.join('ada')
    pace.spend(1500)
    leave()
    const again = paces.join('ada')
    expect(again.pace.take(1)).toBe(false)
    again.leave()
    await vi.advanceTimersByTimeAsync(16 * SECOND)
    expect(vi.getTimerCount()).toBe(0)
    expect(paces.join('ada').pace.take(1000)).toBe(true)
  })
})
