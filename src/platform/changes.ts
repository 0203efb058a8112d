import { Prisma } from '../generated/prisma/client.ts'

/**
 * Named statements for one WITH clause. Each statement sees the rows that the statements it refers to return, and
 * otherwise the tables as they were before all of them.
 */
export type Changes = Record<string, Prisma.Sql>

/** Returns `name AS (statement), …`. */
export function namedParts(changes: Changes): Prisma.Sql {
  const parts = Object.entries(changes).map(([name, change]) => Prisma.sql`${partName(name)} AS (${change})`)
  return parts.length === 0 ? Prisma.empty : Prisma.join(parts, ', ')
}

/** Returns one statement that executes all of them and returns the rows of the one named `answering`. */
export function statementOf(changes: Changes, answering: string): Prisma.Sql {
  return Prisma.sql`WITH ${namedParts(changes)} SELECT * FROM ${partName(answering)}`
}

export const partName = (name: string) => Prisma.raw(`"${name}"`)
