import { Prisma } from '../generated/prisma/client.ts'

/**
 * That a column has one of these values. Of a list PostgreSQL guesses the length, and by that would plan a named statement anew each
 * time, which takes longer than to carry it out: where there is one value, it is compared with that.
 */
export function isOneOf(column: Prisma.Sql, values: readonly string[]): Prisma.Sql {
  return values.length === 1
    ? Prisma.sql`${column} = ${values[0]}`
    : Prisma.sql`${column} = ANY(${[...values]}::text[])`
}
