import { BadInputError } from '../lib/errors.ts'

/** The position after the n-th entry of a topic, counted from 1 within this epoch. */
export interface Position {
  epoch: string
  n: number
}

const randomDigits = () =>
  Math.floor(Math.random() * 2 ** 32)
    .toString(16)
    .padStart(8, '0')

/**
 * Returns a new, unique epoch. Epochs are not secret and must be cheap to create: every batch brings one, and
 * almost none is used.
 */
export function newEpoch(): string {
  return randomDigits() + randomDigits()
}

export function encodeCursor({ epoch, n }: Position): string {
  return Buffer.from(`${epoch}.${n}`).toString('base64url')
}

/** @throws BadInputError for an invalid cursor */
export function decodeCursor(cursor: string): Position {
  const match = /^([0-9a-f]{16})\.(0|[1-9]\d{0,14})$/.exec(Buffer.from(cursor, 'base64url').toString())
  const position = match && { epoch: match[1]!, n: Number(match[2]) }
  if (!position || encodeCursor(position) !== cursor) {
    throw new BadInputError('Invalid cursor. Use a streamCursor, or the cursor of an event.', 'after')
  }
  return position
}

/** Whether a position is later than another. A position of another epoch always counts as later. */
export function isAfter(position: Position, other: Position): boolean {
  return position.epoch !== other.epoch || position.n > other.n
}
