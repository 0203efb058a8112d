import { Prisma } from '../generated/prisma/client.ts'

/** The numbers of parameters of short lists. There are few, so that each statement is prepared in few variants. */
const SIZES = [1, 4, 16]

/**
 * Condition: a column has one of these values. PostgreSQL does not know the length of an array parameter, and would
 * therefore plan a named statement again each time, which takes longer than executing it. A short list therefore has
 * one parameter per value, and repeats the last value to fill the remaining parameters.
 */
export function isOneOf(column: Prisma.Sql, values: readonly string[]): Prisma.Sql {
  const size = SIZES.find((size) => size >= values.length)
  const last = values.at(-1)
  if (size === undefined || last === undefined) return Prisma.sql`${column} = ANY(${[...values]}::text[])`
  if (size === 1) return Prisma.sql`${column} = ${last}`
  return Prisma.sql`${column} IN (${Prisma.join(Array.from({ length: size }, (_, index) => values[index] ?? last))})`
}
