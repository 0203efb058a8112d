import { Prisma } from '../generated/prisma/client.ts'

/** Statements by their names, in one WITH: each sees the rows of those that it reads from, and of tables what was there before all of them. */
export type Changes = Record<string, Prisma.Sql>

/** As `name AS (statement), …`. */
export function namedParts(changes: Changes): Prisma.Sql {
  const parts = Object.entries(changes).map(([name, change]) => Prisma.sql`${partName(name)} AS (${change})`)
  return parts.length === 0 ? Prisma.empty : Prisma.join(parts, ', ')
}

/** The statement of all of them, which answers with the rows of one. */
export function statementOf(changes: Changes, answering: string): Prisma.Sql {
  return Prisma.sql`WITH ${namedParts(changes)} SELECT * FROM ${partName(answering)}`
}

export const partName = (name: string) => Prisma.raw(`"${name}"`)
