import { Prisma } from '../generated/prisma/client.ts'
import { oneLine } from '../lib/json.ts'

/** The name of erased humans. */
export const ERASED = 'Erased'

/** A human whose erasure is in progress, with the former name. */
export interface ErasedHuman {
  id: string
  name: string
  /** Whether the human's messages are erased too, with their quotations. */
  messages: boolean
}

/**
 * Condition: a JSON or text column contains the name, in any encoding, or the human's id. Matching rows are then checked
 * value by value. A name in JSON within a string is encoded twice.
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
