import { describe, expect, test } from 'vitest'
import { isTooSlow } from '../../src/server/http/body.ts'

const MIB = 1024 * 1024

describe('the pace of a request body', () => {
  test.each([
    ['a small one of 20 s on a slow line', 2000, 4000, 20_000, 3000, false],
    ['a small one whose sender is silent for 9 s', 2000, 4000, 9000, 9000, false],
    ['a small one whose sender is silent for 11 s', 2000, 4000, 11_000, 11_000, true],
    ['one of 1 MiB after 25 s of steady sending', MIB - 1, MIB, 25_000, 10, false],
    ['one of 1 MiB of which a byte a second comes', 11, MIB, 11_000, 500, true],
    ['one of 1 MiB whose sender stops before its last byte', MIB - 1, MIB, 9000, 5500, true],
    ['one of unknown length, a byte a second', 11, null, 11_000, 500, true],
    ['one of unknown length that arrives within 10 s', 100, null, 9900, 500, false],
  ])('%s', (_, receivedBytes, declaredBytes, elapsedMs, idleMs, isRefused) => {
    expect(isTooSlow({ receivedBytes, declaredBytes, elapsedMs, idleMs })).toBe(isRefused)
  })
})
