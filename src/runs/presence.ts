import pg from 'pg'
import { Prisma } from '../generated/prisma/client.ts'
import { sleep } from '../lib/async.ts'
import { messageOf } from '../lib/errors.ts'
import type { Platform } from '../platform/platform.ts'

/** The class of these locks among PostgreSQL's advisory ones. */
const CLASS = Prisma.raw(String(0x7061726c))
const IS_PRESENCE = Prisma.sql`l.locktype = 'advisory' AND l.classid = ${CLASS} AND l.objsubid = 2 AND l.granted
  AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())`

/** So little is seldom left to a worker that lives: its leases are renewed when they are 2.5 to 3.5 s old. */
const OVERDUE = Prisma.sql`interval '5.5 seconds'`
/** So long after all connections broke, every worker that lives has one again. */
const RETURNED_WITHIN = Prisma.sql`interval '5 seconds'`

/** What makes a worker present for as long as the connection lives on which it is asked. */
export const presenceOf = (worker: number) =>
  Prisma.sql`SELECT pg_try_advisory_lock_shared(${CLASS}::int, ${worker}::int) AS present`

/** The worker is not present, and the lease is overdue. Nobody is missed while all have just lost their connections. */
const IS_DESERTED = Prisma.sql`"leaseUntil" < clock_timestamp() + ${OVERDUE}
  AND worker <> ALL (ARRAY(SELECT l.objid::int8::int4 FROM pg_locks l WHERE ${IS_PRESENCE}))
  AND (SELECT min(a.backend_start) FROM pg_locks l JOIN pg_stat_activity a USING (pid) WHERE ${IS_PRESENCE})
    < clock_timestamp() - ${RETURNED_WITHIN}`

/** Until when a row of "Run" that executes is in its worker's hands: a worker that lives but for its connection comes back in time and renews. */
export const LEASE_END = Prisma.sql`
  CASE WHEN ${IS_DESERTED} THEN '-infinity' ELSE coalesce("leaseUntil", '-infinity') END`

const LOOK_MS = 1000
const CONNECTED_WITHIN_MS = 3000
/** For the lock: a slow database makes nobody look dead. */
const ANSWERED_WITHIN_MS = 20_000
/** A peer that is gone without a word is noticed by the kernel, which asks for a sign of life from then on, some ten seconds later. */
const SILENT_FOR_MS = 2000
const LONGEST_GOODBYE_MS = 1000

/**
 * Keeps this process present until it is closed, by a connection on which nothing else is asked, so that no slow answer ends it. The
 * kernel closes that of a process which dies. Where it broke, it is opened again within a second.
 */
export function keepPresent({ db, config, logger, worker }: Platform): { close(): Promise<void> } {
  const statement = presenceOf(worker)
  const ended = new AbortController()
  let isPresent = false
  /** On PostgreSQL: the connection that stands, or stood last. */
  let current: pg.Client | null = null

  async function connect(connectionString: string): Promise<void> {
    const client = new pg.Client({
      connectionString,
      connectionTimeoutMillis: CONNECTED_WITHIN_MS,
      query_timeout: ANSWERED_WITHIN_MS,
      keepAlive: true,
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
    // PGlite has but one connection, which ends with its process.
    if (config.databaseUrl === null) await db.prisma.$queryRaw(statement)
    else await connect(config.databaseUrl)
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

const NOT_PRESENT =
  'could not hold the advisory lock that marks this process as alive: other processes may claim its runs; retrying'
