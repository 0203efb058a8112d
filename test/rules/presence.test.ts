import { describe, expect, test } from 'vitest'
import { AWAY_AFTER_MS, presenceOf, shownPresence, TYPING_MS, typingUntil } from '../../src/rules/presence.ts'

describe('presence', () => {
  test.each([
    [false, 0, 'OFFLINE'],
    [true, 0, 'ONLINE'],
    [true, AWAY_AFTER_MS - 1, 'ONLINE'],
    [true, AWAY_AFTER_MS, 'AWAY'],
    [false, AWAY_AFTER_MS, 'OFFLINE'],
  ] as const)('connected: %s, idle for %d ms: %s', (isConnected, idleMs, presence) => {
    expect(presenceOf({ isConnected, idleMs })).toBe(presence)
  })

  test.each([
    [{ isHidden: false, isAdmin: false, sharesSpace: true }, 'AWAY'],
    [{ isHidden: false, isAdmin: true, sharesSpace: false }, 'AWAY'],
    [{ isHidden: false, isAdmin: false, sharesSpace: false }, 'OFFLINE'],
    [{ isHidden: true, isAdmin: true, sharesSpace: true }, 'OFFLINE'],
  ] as const)('presence for %j is shown as %s', (facts, shown) => {
    expect(shownPresence('AWAY', facts)).toBe(shown)
  })

  test('typing on changes nothing until the time is nearly over', () => {
    expect(typingUntil(1000, undefined)).toBe(1000 + TYPING_MS)
    expect(typingUntil(1000, 1000 + TYPING_MS)).toBe(1000 + TYPING_MS)
    expect(typingUntil(5000, 1000 + TYPING_MS)).toBe(5000 + TYPING_MS)
  })
})
