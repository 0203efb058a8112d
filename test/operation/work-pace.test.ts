import { beforeEach, describe, expect, test } from 'vitest'
import { createWorkPace, type WorkPace } from '../../src/operation/work-pace.ts'

describe('the pace of background work', () => {
  let pace: WorkPace
  let pausedMs: number
  beforeEach(() => {
    pausedMs = 0
    pace = createWorkPace(async (ms) => {
      pausedMs += ms
    })
  })

  /** Processes a batch of rows, each of which takes this long. */
  const work = (rows: number, msEach: number) => pace.after(rows, rows * msEach)

  test('a batch has as many rows as take 10 ms, and at most twice as many as the previous batch', async () => {
    const sizes: number[] = []
    for (let batch = 0; batch < 8; batch++) {
      sizes.push(pace.rows())
      await work(pace.rows(), 0.1)
    }
    expect(sizes).toEqual([5, 10, 20, 40, 80, 100, 100, 100])
  })

  test('a slow batch makes the next one smaller at once', async () => {
    for (let batch = 0; batch < 8; batch++) await work(pace.rows(), 0.1)
    await work(pace.rows(), 1)
    expect(pace.rows()).toBe(10)
    await work(pace.rows(), 1000)
    expect(pace.rows()).toBe(5)
  })

  test('small fast batches do not make the next one smaller', async () => {
    for (let batch = 0; batch < 8; batch++) await work(pace.rows(), 0.1)
    await work(1, 2)
    expect(pace.rows()).toBe(100)
  })

  test('background work leaves four fifths of the time to others', async () => {
    for (let batch = 0; batch < 100; batch++) await work(1, 3)
    expect(pausedMs).toBe(4 * 100 * 3)
  })
})
