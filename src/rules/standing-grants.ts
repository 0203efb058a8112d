import type { StandingGrant } from '../generated/prisma/client.ts'
import { BadInputError, ConflictError } from '../lib/errors.ts'
import { isObject, type Json, type JsonObject } from '../lib/json.ts'
import { checkInteger, checkText } from '../lib/validate.ts'

export const GRANT_STATES = ['PENDING', 'ACTIVE', 'DENIED', 'USED_UP', 'EXPIRED', 'REVOKED', 'TOOL_CHANGED'] as const
export type GrantState = (typeof GRANT_STATES)[number]

/** A grant as read from the database. `isLate` tells whether the grant has expired according to the database clock. */
export type ReadGrant = StandingGrant & { isLate: boolean }

/** The fields that determine the state of a grant. */
export type GrantFacts = Pick<
  ReadGrant,
  | 'activeSince'
  | 'deniedAt'
  | 'revokedAt'
  | 'toolChangedAt'
  | 'isLate'
  | 'maxCalls'
  | 'usedCalls'
  | 'maxAmount'
  | 'usedAmount'
>

/** Returns the state of a grant, including what ended it. */
export function stateOf(grant: GrantFacts): GrantState {
  if (grant.deniedAt !== null) return 'DENIED'
  if (grant.revokedAt !== null) return 'REVOKED'
  const { maxCalls, usedCalls, maxAmount, usedAmount } = grant
  if ((maxCalls !== null && usedCalls >= maxCalls) || (maxAmount !== null && usedAmount >= maxAmount)) return 'USED_UP'
  if (grant.toolChangedAt !== null) return 'TOOL_CHANGED'
  if (grant.isLate) return 'EXPIRED'
  return grant.activeSince === null ? 'PENDING' : 'ACTIVE'
}

const ENDED: Record<Exclude<GrantState, 'PENDING' | 'ACTIVE'>, string> = {
  DENIED: 'it was denied',
  USED_UP: 'it is used up',
  EXPIRED: 'it has expired',
  REVOKED: 'it was revoked',
  TOOL_CHANGED: 'its tool was changed',
}

/** @throws ConflictError with the state of the grant if it no longer waits for a decision */
export function requireUndecided(grant: GrantFacts): void {
  const state = stateOf(grant)
  if (state === 'PENDING') return
  const reason = state === 'ACTIVE' ? 'it is active, and can only be revoked' : ENDED[state]
  throw new ConflictError(`This standing grant is no longer waiting for a decision: ${reason}.`)
}

/** @throws ConflictError with the state of the grant if it has ended */
export function requireLive(grant: GrantFacts): void {
  const state = stateOf(grant)
  if (state !== 'PENDING' && state !== 'ACTIVE')
    throw new ConflictError(`This standing grant has already ended: ${ENDED[state]}.`)
}

/** The limits of a grant. */
export interface GrantBounds {
  inputSchema: Json
  maxCalls: number | null
  amountProperty: string | null
  maxAmount: number | null
  expiresInSeconds: number
}

export interface GrantBoundsInput {
  inputSchema?: unknown
  maxCalls?: number | null
  amountProperty?: string | null
  maxAmount?: number | null
  expiresInSeconds: number
}

const MOST_CALLS = 1_000_000
/** The maximum amount. Floating-point sums up to this value are exact to at least three decimals. */
const LARGEST_AMOUNT = 1_000_000_000_000
/** The maximum duration: 30 days. */
const LONGEST_SECONDS = 2_592_000
const LONGEST_PROPERTY = 200

/**
 * Checks the limits of a grant, but not whether its schema compiles. `toolSchema` is the schema of the tool's input.
 * @throws BadInputError
 */
export function checkBounds(input: GrantBoundsInput, toolSchema: JsonObject): GrantBounds {
  const { maxCalls = null, amountProperty = null, maxAmount = null, expiresInSeconds } = input
  const inputSchema = (input.inputSchema ?? null) as Json
  if (inputSchema === null && maxCalls === null && maxAmount === null)
    throw new BadInputError('A standing grant needs a limit: set inputSchema, maxCalls or maxAmount.', 'input.maxCalls')
  if ((amountProperty === null) !== (maxAmount === null))
    throw new BadInputError(
      'amountProperty and maxAmount require each other: set both or neither.',
      maxAmount === null ? 'input.maxAmount' : 'input.amountProperty',
    )
  return {
    inputSchema,
    maxCalls: maxCalls === null ? null : checkInteger(maxCalls, 1, MOST_CALLS, 'input.maxCalls'),
    amountProperty: amountProperty === null ? null : checkProperty(amountProperty, toolSchema),
    maxAmount: maxAmount === null ? null : checkAmount(maxAmount),
    expiresInSeconds: checkInteger(expiresInSeconds, 1, LONGEST_SECONDS, 'input.expiresInSeconds'),
  }
}

function checkAmount(amount: number): number {
  if (amount > 0 && amount <= LARGEST_AMOUNT) return amount
  throw new BadInputError(`maxAmount must be a number above 0, at most ${LARGEST_AMOUNT}.`, 'input.maxAmount')
}

const NUMERIC = ['number', 'integer']

function checkProperty(name: string, { properties }: JsonObject): string {
  const field = 'input.amountProperty'
  const checked = checkText(name, LONGEST_PROPERTY, field)
  const property = isObject(properties) && Object.hasOwn(properties, checked) ? properties[checked] : null
  const types = isObject(property) ? [property['type']].flat() : []
  if (types.some((type) => NUMERIC.includes(String(type)))) return checked
  throw new BadInputError('amountProperty must be a numeric property of the input in the schema of the tool.', field)
}

/** Returns the amount of a call for a grant; null if the call has no amount, so that the grant does not cover it. */
export function amountOf({ amountProperty }: Pick<StandingGrant, 'amountProperty'>, input: JsonObject): number | null {
  if (amountProperty === null) return 0
  const amount = Object.hasOwn(input, amountProperty) ? input[amountProperty] : null
  return typeof amount === 'number' && Number.isFinite(amount) && amount >= 0 ? amount : null
}
