import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { createWorkPace, type WorkPace } from '../../src/operation/work-pace.ts'

describe('the pace of work in the background', () => {
  let pace: WorkPace
  beforeEach(() => {
    vi.useFakeTimers()
    pace = createWorkPace()
  })
  afterEach(() => vi.useRealTimers())

  /** A batch of so many rows, of which each takes so long. */
  const work = async (rows: number, msEach: number) => {
    const rested = pace.after(rows, rows * msEach)
    await vi.runAllTimersAsync()
    await rested
  }

  test('as many rows are done at once as take 10 ms, at most twice as many as before', async () => {
    const sizes: number[] = []
    for (let batch = 0; batch < 8; batch++) {
      sizes.push(pace.rows())
      await work(pace.rows(), 0.1)
    }
    expect(sizes).toEqual([5, 10, 20, 40, 80, 100, 100, 100])
  })

  test('one that was slow is followed by fewer, at once', async () => {
    for (let batch = 0; batch < 8; batch++) await work(pace.rows(), 0.1)
    await work(pace.rows(), 1)
    expect(pace.rows()).toBe(10)
    await work(pace.rows(), 1000)
    expect(pace.rows()).toBe(5)
  })

  test('a few that were quick are no reason for fewer', async () => {
    for (let batch = 0; batch < 8; batch++) await work(pace.rows(), 0.1)
    await work(1, 2)
    expect(pace.rows()).toBe(100)
  })

  test('four fifths of the time belong to others', async () => {
    const since = Date.now()
    for (let batch = 0; batch < 100; batch++) await work(1, 3)
    expect(Date.now() - since).toBeGreaterThan(1100)
  })
})
