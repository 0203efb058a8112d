import { Prisma } from '../generated/prisma/client.ts'
import { oneLine } from '../lib/json.ts'

/** What an erased human is called from then on. */
export const ERASED = 'Erased'

/** A human that is being erased, by the name that it had. */
export interface ErasedHuman {
  id: string
  name: string
  /** Its messages are emptied too: what quotes them is. */
  messages: boolean
}

/**
 * A condition that a JSON or text column holds the name in any way of writing it, or the human's id: rows that it finds are looked at, value by
 * value. A name in JSON within a text is encoded twice.
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
