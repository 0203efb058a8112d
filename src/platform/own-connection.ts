import pg from 'pg'
import type { Prisma } from '../generated/prisma/client.ts'
import type { Platform } from './platform.ts'

/** A connection beside the pool's, for what must come through when work has taken all of those. */
export interface OwnConnection {
  /** Opens it where it is not open. @throws after 3 s without an answer */
  open(): Promise<void>
  /** The rows. @throws after 3 s without an answer */
  query<Row extends object>(statement: Prisma.Sql): Promise<Row[]>
  close(): Promise<void>
}

const LONGEST_WAIT_MS = 3000

/** Opens it at the first use, and anew after a fault, with `greeting` as the first that is asked on it. PGlite has but one connection: there it is that. */
export function openOwnConnection({ db, config, logger }: Platform, greeting: Prisma.Sql): OwnConnection {
  if (config.databaseUrl === null) return shared(db, greeting)
  const pool = new pg.Pool({
    connectionString: config.databaseUrl,
    max: 1,
    idleTimeoutMillis: 0,
    connectionTimeoutMillis: LONGEST_WAIT_MS,
    query_timeout: LONGEST_WAIT_MS,
    statement_timeout: LONGEST_WAIT_MS,
    keepAlive: true,
    onConnect: async (client) => void (await client.query(greeting.text, greeting.values)),
  })
  pool.on('error', (error) => logger.warn({ error: error.message }, 'the connection for leases broke'))
  return {
    async open() {
      if (pool.totalCount === 0) (await pool.connect()).release()
    },
    async query<Row extends object>({ text, values }: Prisma.Sql) {
      return (await pool.query<Row>(text, values)).rows
    },
    close: () => pool.end(),
  }
}

function shared({ prisma }: Platform['db'], greeting: Prisma.Sql): OwnConnection {
  let isGreeted = false
  return {
    async open() {
      if (!isGreeted) await prisma.$queryRaw(greeting)
      isGreeted = true
    },
    query: (statement) => prisma.$queryRaw(statement),
    async close() {},
  }
}
