import type pg from 'pg'
import { Prisma } from '../generated/prisma/client.ts'
import { sleep } from '../lib/async.ts'
import { messageOf } from '../lib/errors.ts'
import type { Platform } from '../platform/platform.ts'

/** The class id of the advisory locks for presence in PostgreSQL. */
const CLASS = Prisma.raw(String(0x7061726c))
const IS_PRESENCE = Prisma.sql`l.locktype = 'advisory' AND l.classid = ${CLASS} AND l.objsubid = 2 AND l.granted
  AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())`

/** A living worker renews its leases when they are 2.5 to 3.5 s old, so they rarely have less time left than this. */
const OVERDUE = Prisma.sql`interval '5.5 seconds'`
/** If all connections break, every living worker reconnects within this time. */
const RETURNED_WITHIN = Prisma.sql`interval '5 seconds'`

/** Returns the statement that acquires a worker's advisory lock, which is held until the connection closes. */
export const presenceOf = (worker: number) =>
  Prisma.sql`SELECT pg_try_advisory_lock_shared(${CLASS}::int, ${worker}::int) AS present`

/**
 * Condition: the worker holds no lock, and its lease should have been renewed by now. The condition is false shortly
 * after all workers have lost their connections.
 */
const IS_DESERTED = Prisma.sql`"leaseUntil" < clock_timestamp() + ${OVERDUE}
  AND worker <> ALL (ARRAY(SELECT l.objid::int8::int4 FROM pg_locks l WHERE ${IS_PRESENCE}))
  AND (SELECT min(a.backend_start) FROM pg_locks l JOIN pg_stat_activity a USING (pid) WHERE ${IS_PRESENCE})
    < clock_timestamp() - ${RETURNED_WITHIN}`

/**
 * SQL for when the lease of a running "Run" ends. It ends immediately if its worker has died. A living worker that has
 * only lost its connection reconnects in time and renews the lease.
 */
export const LEASE_END = Prisma.sql`
  CASE WHEN ${IS_DESERTED} THEN '-infinity' ELSE coalesce("leaseUntil", '-infinity') END`

const LOOK_MS = 1000
const CONNECTED_WITHIN_MS = 3000
/** The timeout of the query for the lock. It is long, so that a worker with a slow database is not considered dead. */
const ANSWERED_WITHIN_MS = 20_000
/**
 * How long a connection is idle before TCP keepalive starts. The kernel then detects an unreachable peer within about
 * ten seconds.
 */
const SILENT_FOR_MS = 2000
const LONGEST_GOODBYE_MS = 1000

/**
 * Marks this process as alive until `close` is called. Holds an advisory lock on a connection that executes no other
 * queries, because a slow query would delay the lock. If the process dies, the kernel closes the connection. After a
 * lost connection, reconnects within a second. If there is only a transaction pooler, no connection can hold the lock,
 * so other workers wait until the leases expire.
 */
export function keepPresent({ db, logger, worker }: Platform): { close(): Promise<void> } {
  if (db.beside !== null && db.beside.createSession === null) return { async close() {} }
  const createSession = db.beside?.createSession ?? null
  const statement = presenceOf(worker)
  const ended = new AbortController()
  let isPresent = false
  /** The current or the last connection; only used with PostgreSQL. */
  let current: pg.Client | null = null

  async function connect(create: NonNullable<typeof createSession>): Promise<void> {
    const client = create({
      connectionTimeoutMillis: CONNECTED_WITHIN_MS,
      query_timeout: ANSWERED_WITHIN_MS,
      keepAliveInitialDelayMillis: SILENT_FOR_MS,
    })
    const lose = () => {
      if (current === client) isPresent = false
    }
    current = client.on('error', lose).on('end', lose)
    await client.connect()
    await client.query(statement.text, statement.values)
  }

  async function bePresent(): Promise<void> {
    void current?.end().catch(() => {})
    // PGlite has only one connection, which ends with its process.
    if (createSession === null) await db.prisma.$queryRaw(statement)
    else await connect(createSession)
    isPresent = true
  }

  async function lookAgainAndAgain(): Promise<void> {
    while (!ended.signal.aborted) {
      if (!isPresent) await bePresent().catch((error) => logger.warn({ error: messageOf(error) }, NOT_PRESENT))
      await sleep(LOOK_MS, ended.signal)
    }
  }

  const looking = lookAgainAndAgain()
  return {
    async close() {
      ended.abort()
      const gone = looking.then(() => current?.end()).catch(() => {})
      await Promise.race([gone, sleep(LONGEST_GOODBYE_MS)])
    },
  }
}

/** How often a process checks for other processes. */
const OTHERS_EVERY_MS = 10_000

/**
 * Logs a warning if several processes use this database without REDIS_URL, because each of them then sees only its own
 * events. Checks at startup and when another process appears. Finds workers by the locks that `keepPresent` holds.
 */
export function warnOfOthers(
  { db, logger, worker, config }: Pick<Platform, 'db' | 'logger' | 'worker' | 'config'>,
  everyMs = OTHERS_EVERY_MS,
): { close(): Promise<void> } {
  if (db.beside === null || config.redisUrl !== null) return { async close() {} }
  const ended = new AbortController()
  let known = new Set<number>()

  async function look(): Promise<void> {
    const rows = await db.query<{ id: number }>(Prisma.sql`SELECT l.objid::int8::int4 AS id FROM pg_locks l
      WHERE ${IS_PRESENCE} AND l.objid::int8::int4 <> ${worker}::int`)
    const found = new Set(rows.map(({ id }) => id))
    if ([...found].some((id) => !known.has(id))) logger.warn(NOT_SHARED)
    known = found
  }

  async function lookAgainAndAgain(): Promise<void> {
    while (!ended.signal.aborted) {
      // Other parts report that the database is unreachable, so the error is ignored here.
      await look().catch(() => {})
      await sleep(everyMs, ended.signal)
    }
  }

  const looking = lookAgainAndAgain()
  return {
    async close() {
      ended.abort()
      await looking
    },
  }
}

const NOT_SHARED =
  "another process uses this database, and REDIS_URL is not set: people connected to different processes do not see each other's live events. Set REDIS_URL to the same Redis for all processes."

const NOT_PRESENT =
  'could not hold the advisory lock that marks this process as alive: other processes may claim its runs; retrying'
