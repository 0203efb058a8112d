import type { Prisma } from '../generated/prisma/client.ts'
import type { Platform } from './platform.ts'

/** A connection outside the pool, for statements that must succeed while the pool is exhausted. */
export interface OwnConnection {
  /**
   * Executes a statement and returns the rows.
   * @throws Error after 3 s without a result
   */
  query<Row extends object>(statement: Prisma.Sql): Promise<Row[]>
  close(): Promise<void>
}

const LONGEST_WAIT_MS = 3000

/** Opens the connection on first use, and again after an error. For PGlite, uses the only connection. */
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
