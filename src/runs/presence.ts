import { Prisma } from '../generated/prisma/client.ts'

/** The class of these locks among PostgreSQL's advisory ones. */
const CLASS = Prisma.raw(String(0x7061726c))
const IS_PRESENCE = Prisma.sql`l.locktype = 'advisory' AND l.classid = ${CLASS} AND l.objsubid = 2 AND l.granted
  AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())`

/** A worker that lives has renewed its leases before so little is left of one: they are four and a half seconds old then. */
const OVERDUE = Prisma.sql`interval '5.5 seconds'`
/** So long after all connections broke, every worker that lives has one again. */
const RETURNED_WITHIN = Prisma.sql`interval '5 seconds'`

/** What makes a worker present for as long as the connection lives on which it is asked: the kernel closes that of a process which dies. */
export const presenceOf = (worker: number) =>
  Prisma.sql`SELECT pg_try_advisory_lock_shared(${CLASS}::int, ${worker}::int) AS present`

/** The worker is not present, and has not renewed the lease for longer than one does that lives. Nobody is missed while all have just lost their connections. */
const IS_DESERTED = Prisma.sql`"leaseUntil" < clock_timestamp() + ${OVERDUE}
  AND worker <> ALL (ARRAY(SELECT l.objid::int8::int4 FROM pg_locks l WHERE ${IS_PRESENCE}))
  AND (SELECT min(a.backend_start) FROM pg_locks l JOIN pg_stat_activity a USING (pid) WHERE ${IS_PRESENCE})
    < clock_timestamp() - ${RETURNED_WITHIN}`

/** Until when a row of "Run" that executes is in its worker's hands: a worker that lives but for its connection comes back in time and renews. */
export const LEASE_END = Prisma.sql`
  CASE WHEN ${IS_DESERTED} THEN '-infinity' ELSE coalesce("leaseUntil", '-infinity') END`
