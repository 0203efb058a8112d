import { z } from 'zod'
import { PostgresUrlError, readPostgresUrl, unknownParameters } from '../lib/postgres-url.ts'

/**
 * The address of PostgreSQL: `postgresql://user:password@host:5432/name`, or, for a Unix socket, with the socket's
 * folder as `host`: `postgresql://user@/name?host=/var/run/postgresql`.
 */
export const databaseUrl = z
  .string()
  .superRefine((value, context) => {
    try {
      readPostgresUrl(value)
    } catch (error) {
      if (!(error instanceof PostgresUrlError)) throw error
      for (const message of error.faults) context.addIssue({ code: 'custom', message })
    }
  })
  .optional()

/**
 * Returns warnings about parameters of a valid URL that have no effect, except for parameters that are known to be
 * harmless.
 */
export function databaseUrlWarnings(set: Record<string, string | undefined>): string[] {
  return ['DATABASE_URL', 'PARLEY_DIRECT_DATABASE_URL'].flatMap((name) => {
    const names = set[name] === undefined ? [] : unknownParameters(readPostgresUrl(set[name]))
    return names.length === 0 ? [] : [`${name}: these parameters have no effect: ${names.join(', ')}`]
  })
}
