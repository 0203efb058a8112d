import { Prisma } from '../generated/prisma/client.ts'

/**
 * A condition that a column has one of these values. A single value is compared directly: for a list, PostgreSQL
 * guesses the length and would therefore plan a named statement again each time, which takes longer than executing it.
 */
export function isOneOf(column: Prisma.Sql, values: readonly string[]): Prisma.Sql {
  return values.length === 1
    ? Prisma.sql`${column} = ${values[0]}`
    : Prisma.sql`${column} = ANY(${[...values]}::text[])`
}
