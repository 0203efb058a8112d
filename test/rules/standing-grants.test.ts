import { describe, expect, test } from 'vitest'
import {
  amountOf,
  checkBounds,
  type GrantBoundsInput,
  type GrantFacts,
  requireLive,
  requireUndecided,
  stateOf,
} from '../../src/rules/standing-grants.ts'

const PENDING: GrantFacts = {
  activeSince: null,
  deniedAt: null,
  revokedAt: null,
  toolChangedAt: null,
  isLate: false,
  maxCalls: 3,
  usedCalls: 0,
  maxAmount: 10,
  usedAmount: 0,
}
const then = new Date(0)
const active = { ...PENDING, activeSince: then }
const SCHEMA = {
  type: 'object',
  properties: { amount: { type: 'number' }, count: { type: ['integer', 'null'] }, note: { type: 'string' } },
}

describe('a standing grant', () => {
  test.each<[string, GrantFacts]>([
    ['PENDING', PENDING],
    ['ACTIVE', active],
    ['ACTIVE', { ...active, usedCalls: 2, usedAmount: 9.99 }],
    ['DENIED', { ...PENDING, deniedAt: then, isLate: true }],
    ['REVOKED', { ...active, revokedAt: then, usedCalls: 3 }],
    ['USED_UP', { ...active, usedCalls: 3, isLate: true }],
    ['USED_UP', { ...active, usedAmount: 10, toolChangedAt: then }],
    ['TOOL_CHANGED', { ...active, toolChangedAt: then, isLate: true }],
    ['EXPIRED', { ...active, isLate: true }],
    ['EXPIRED', { ...PENDING, isLate: true }],
    ['ACTIVE', { ...active, maxCalls: null, maxAmount: null, usedCalls: 1000 }],
  ])('is %s', (state, facts) => {
    expect(stateOf(facts)).toBe(state)
    if (state === 'PENDING') expect(() => requireUndecided(facts)).not.toThrow()
    else expect(() => requireUndecided(facts)).toThrow('is no longer waiting for a decision')
    if (state === 'PENDING' || state === 'ACTIVE') expect(() => requireLive(facts)).not.toThrow()
    else expect(() => requireLive(facts)).toThrow('has already ended')
  })

  test.each<[unknown, number | null]>([
    [{ amount: 3.5 }, 3.5],
    [{ amount: 0 }, 0],
    [{ amount: -1 }, null],
    [{ amount: Number.NaN }, null],
    [{ amount: Number.POSITIVE_INFINITY }, null],
    [{ amount: '3' }, null],
    [{ amount: null }, null],
    [{}, null],
    [Object.create({ amount: 3 }), null],
  ])('reads from the input %j the amount %j', (input, amount) => {
    expect(amountOf({ amountProperty: 'amount' }, input as never)).toBe(amount)
    expect(amountOf({ amountProperty: null }, input as never)).toBe(0)
  })

  test.each<[object, string]>([
    [{}, 'needs a limit'],
    [{ amountProperty: 'amount', maxCalls: 1 }, 'require each other'],
    [{ maxAmount: 3 }, 'require each other'],
    [{ maxAmount: 3, amountProperty: 'note' }, 'numeric property'],
    [{ maxAmount: 3, amountProperty: 'toString' }, 'numeric property'],
    [{ maxAmount: 0, amountProperty: 'amount' }, 'above 0'],
    [{ maxAmount: 1e13, amountProperty: 'amount' }, 'at most 1000000000000'],
    [{ maxCalls: 0 }, 'whole number from 1'],
    [{ maxCalls: 1, expiresInSeconds: 0 }, 'from 1 to 2592000'],
    [{ maxCalls: 1, expiresInSeconds: 2_592_001 }, 'from 1 to 2592000'],
  ])('a grant with the limits %j is refused', (bounds, words) => {
    expect(() => checkBounds({ expiresInSeconds: 60, ...bounds }, SCHEMA)).toThrow(words)
  })

  test.each<[Omit<GrantBoundsInput, 'expiresInSeconds'>]>([
    [{ inputSchema: { required: ['note'] } }],
    [{ maxCalls: 1_000_000 }],
    [{ maxAmount: 0.5, amountProperty: 'amount' }],
    [{ maxAmount: 5, amountProperty: 'count', maxCalls: null, inputSchema: null }],
  ])('a grant with the limits %j is accepted', (bounds) => {
    expect(checkBounds({ ...bounds, expiresInSeconds: 2_592_000 }, SCHEMA)).toMatchObject(bounds)
  })
})
