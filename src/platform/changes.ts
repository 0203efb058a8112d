import { Prisma } from '../generated/prisma/client.ts'

/**
 * Named statements for one WITH clause. A statement sees the rows that another one returns if it refers to that
 * statement by name. It sees all tables as they were before the first statement.
 */
export type Changes = Record<string, Prisma.Sql>

/** Returns `name AS (statement), …`. */
export function namedParts(changes: Changes): Prisma.Sql {
  const parts = Object.entries(changes).map(([name, change]) => Prisma.sql`${partName(name)} AS (${change})`)
  return parts.length === 0 ? Prisma.empty : Prisma.join(parts, ', ')
}

/** Combines the statements into one, which returns the rows of the statement named `answering`. */
export function statementOf(changes: Changes, answering: string): Prisma.Sql {
  return Prisma.sql`WITH ${namedParts(changes)} SELECT * FROM ${partName(answering)}`
}

export const partName = (name: string) => Prisma.raw(`"${name}"`)
