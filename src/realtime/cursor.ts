import { BadInputError } from '../lib/errors.ts'

/** A place in a topic: after its n-th entry, counted from 1 since the topic came to be under this epoch. */
export interface Position {
  epoch: string
  n: number
}

const randomDigits = () =>
  Math.floor(Math.random() * 2 ** 32)
    .toString(16)
    .padStart(8, '0')

/** Names one life of a topic; never used again. No secret, and cheap: one is made with every batch that is written, and nearly none is used. */
export function newEpoch(): string {
  return randomDigits() + randomDigits()
}

export function encodeCursor({ epoch, n }: Position): string {
  return Buffer.from(`${epoch}.${n}`).toString('base64url')
}

/** @throws BadInputError for a text that is no cursor of any stream. */
export function decodeCursor(cursor: string): Position {
  const match = /^([0-9a-f]{16})\.(0|[1-9]\d{0,14})$/.exec(Buffer.from(cursor, 'base64url').toString())
  const position = match && { epoch: match[1]!, n: Number(match[2]) }
  if (!position || encodeCursor(position) !== cursor) {
    throw new BadInputError('Invalid cursor. Use a streamCursor, or the cursor of an event.', 'after')
  }
  return position
}

/** Whether a place comes later than another; one of another epoch always does. */
export function isAfter(position: Position, other: Position): boolean {
  return position.epoch !== other.epoch || position.n > other.n
}
