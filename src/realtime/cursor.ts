import { randomBytes } from 'node:crypto'
import { BadInputError } from '../lib/errors.ts'

/** A place in a topic: after its n-th entry, counted from 1 since the topic came to be under this epoch. */
export interface Position {
  epoch: string
  n: number
}

/** Of 64 random bits, from where this process counts on: one is made with every batch that is written, and nearly none is used. */
let lastEpoch = randomBytes(8).readBigUInt64BE()

/** Names one life of a topic; never used again. */
export function newEpoch(): string {
  lastEpoch = BigInt.asUintN(64, lastEpoch + 1n)
  return lastEpoch.toString(16).padStart(16, '0')
}

export function encodeCursor({ epoch, n }: Position): string {
  return Buffer.from(`${epoch}.${n}`).toString('base64url')
}

/** @throws BadInputError for a text that is no cursor of any stream. */
export function decodeCursor(cursor: string): Position {
  const match = /^([0-9a-f]{16})\.(0|[1-9]\d{0,14})$/.exec(Buffer.from(cursor, 'base64url').toString())
  const position = match && { epoch: match[1]!, n: Number(match[2]) }
  if (!position || encodeCursor(position) !== cursor) {
    throw new BadInputError('That is not a cursor of a stream.', 'after')
  }
  return position
}

/** Whether a place comes later than another; one of another epoch always does. */
export function isAfter(position: Position, other: Position): boolean {
  return position.epoch !== other.epoch || position.n > other.n
}
