import type { Prisma } from '../generated/prisma/client.ts'
import type { Platform } from './platform.ts'

/** A connection outside the pool, for statements that must succeed while the pool is exhausted. */
export interface OwnConnection {
  /** Returns the rows. @throws after 3 s without an answer */
  query<Row extends object>(statement: Prisma.Sql): Promise<Row[]>
  close(): Promise<void>
}

const LONGEST_WAIT_MS = 3000

/**
 * Opens the connection at the first use, and again after an error. PGlite has only one connection, which is used
 * instead.
 */
export function openOwnConnection({ db, logger }: Pick<Platform, 'db' | 'logger'>): OwnConnection {
  if (db.beside === null) return { query: (statement) => db.prisma.$queryRaw(statement), async close() {} }
  const pool = db.beside.openPool({
    max: 1,
    idleTimeoutMillis: 0,
    connectionTimeoutMillis: LONGEST_WAIT_MS,
    query_timeout: LONGEST_WAIT_MS,
    settings: { statement_timeout: String(LONGEST_WAIT_MS) },
  })
  pool.on('error', (error) => logger.warn({ error: error.message }, 'lost the connection used for leases'))
  return {
    async query<Row extends object>({ text, values }: Prisma.Sql) {
      return (await pool.query<Row>(text, values)).rows
    },
    close: () => pool.end(),
  }
}
