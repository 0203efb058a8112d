import { describe, expect, test } from 'vitest'
import { createLoopPlaces } from '../../src/platform/loop-places.ts'

describe('places according to the load of the event loop', () => {
  function placesUnder(shares: number[], options: { most: number }) {
    let nowMs = 0
    const places = createLoopPlaces({ ...options, now: () => nowMs, busyShare: () => shares.shift() ?? 0.8 })
    return () => {
      nowMs += 60
      return places()
    }
  }

  test.each([
    { what: 'halve while it is busy, down to two', shares: [1, 1, 1, 1], most: 10, expected: [5, 2, 2, 2] },
    {
      what: 'grow by one when it has time to spare',
      shares: [1, 1, 0.3, 0.3, 0.3, 0.3],
      most: 10,
      expected: [5, 2, 3, 4, 5, 6],
    },
    { what: 'stay in between', shares: [1, 0.8, 0.8], most: 10, expected: [5, 5, 5] },
    { what: 'are never more than there are', shares: [1, 0, 0], most: 1, expected: [1, 1, 1] },
  ])('$what', ({ shares, most, expected }) => {
    const places = placesUnder([...shares], { most })
    expect(expected.map(() => places())).toEqual(expected)
  })

  test('change at most every 50 ms', () => {
    const places = createLoopPlaces({ most: 10, now: () => 49, busyShare: () => 1 })
    expect(places()).toBe(10)
  })
})
