import { Prisma } from '../generated/prisma/client.ts'
import { oneLine } from '../lib/json.ts'

/** The name that replaces the name of an erased human. */
export const ERASED = 'Erased'

/** A human who is being erased, and the human's former name. */
export interface ErasedHuman {
  id: string
  name: string
  /** Whether the human's messages, and quotations of them, are erased too. */
  messages: boolean
}

/**
 * Condition: a JSON or text column contains the human's id, or the name in one of its encodings. (A name in JSON within
 * a string is encoded twice.) The caller then checks each value of the matching rows.
 */
export function holds({ id, name }: ErasedHuman, column: Prisma.Sql): Prisma.Sql {
  const encoded = (text: string) => JSON.stringify(text).slice(1, -1)
  const once = [name, oneLine(name)].map(encoded)
  const texts = [
    ...new Set([id, name, oneLine(name), ...once, ...once.map(encoded), ...once.map(encoded).map(encoded)]),
  ]
  const found = texts.map((text) => Prisma.sql`strpos(${column}::text, ${text}) > 0`)
  return Prisma.sql`(${column} IS NOT NULL AND (${Prisma.join(found, ' OR ')}))`
}
