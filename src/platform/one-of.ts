import { Prisma } from '../generated/prisma/client.ts'

/**
 * The possible numbers of parameters for a list. There are only a few, so that each statement is prepared in few
 * variants.
 */
const SIZES = [1, 4, 16]

/**
 * Returns a condition: the column has one of these values. PostgreSQL does not know the length of an array parameter,
 * so it would plan a named statement again each time, which takes longer than the execution. A short list therefore
 * gets one parameter per value. Its last value is repeated to fill the remaining parameters.
 */
export function isOneOf(column: Prisma.Sql, values: readonly string[]): Prisma.Sql {
  const size = SIZES.find((size) => size >= values.length)
  const last = values.at(-1)
  if (size === undefined || last === undefined) return Prisma.sql`${column} = ANY(${[...values]}::text[])`
  if (size === 1) return Prisma.sql`${column} = ${last}`
  return Prisma.sql`${column} IN (${Prisma.join(Array.from({ length: size }, (_, index) => values[index] ?? last))})`
}
