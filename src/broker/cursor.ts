// Positions in a topic, and cursors. A cursor is the form in which clients send a position.
import { BadInputError } from '../lib/errors.ts'

/** The position after the publication with this offset. Offsets are counted from 1 within an epoch; 0 is the start. */
export interface StreamPosition {
  epoch: string
  offset: number
}

const randomDigits = () =>
  Math.floor(Math.random() * 2 ** 32)
    .toString(16)
    .padStart(8, '0')

/**
 * Returns a new, unique epoch. Epochs are not secret, and must be cheap to create: every batch contains a new one,
 * although a topic rarely needs it.
 */
export function newEpoch(): string {
  return randomDigits() + randomDigits()
}

export function encodeCursor({ epoch, offset }: StreamPosition): string {
  return Buffer.from(`${epoch}.${offset}`).toString('base64url')
}

/** @throws BadInputError for an invalid cursor */
export function decodeCursor(cursor: string): StreamPosition {
  const match = /^([0-9a-f]{16})\.(0|[1-9]\d{0,14})$/.exec(Buffer.from(cursor, 'base64url').toString())
  const position = match && { epoch: match[1]!, offset: Number(match[2]) }
  if (!position || encodeCursor(position) !== cursor) {
    throw new BadInputError('Invalid cursor. Use a streamCursor, or the cursor of an event.', 'after')
  }
  return position
}

/** Whether a position is later than another. A position in another epoch always counts as later. */
export function isAfter(position: StreamPosition, other: StreamPosition): boolean {
  return position.epoch !== other.epoch || position.offset > other.offset
}
