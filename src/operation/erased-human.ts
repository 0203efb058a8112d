import { Prisma } from '../generated/prisma/client.ts'
import { oneLine } from '../lib/json.ts'

/** The name that replaces the name of an erased human. */
export const ERASED = 'Erased'

/** A human who is being erased, with the name before the erasure. */
export interface ErasedHuman {
  id: string
  name: string
  /** Whether the human's messages are erased too, including quotations of them. */
  messages: boolean
}

/**
 * Condition: a JSON or text column contains the human's id, or the name in any encoding. The caller then checks the
 * matching rows value by value. A name in JSON within a string is encoded twice.
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
