import { Prisma } from '../generated/prisma/client.ts'

/** What a driver adapter of Prisma says of a fault: PostgreSQL's own code where it came from there, else a name of its own. */
interface DriverFault {
  originalCode?: string
  kind?: string
}

/**
 * The SQLSTATE of a fault, whoever passes it on: Prisma (a raw statement's is P2010, with the driver's error in `meta`), its
 * driver adapters, `pg` or PGlite. Null for what PostgreSQL has not said.
 */
export function sqlStateOf(error: unknown): string | null {
  const { originalCode } = driverFaultOf(error)
  if (originalCode !== undefined) return originalCode
  const { code, severity } = error as { code?: unknown; severity?: unknown }
  return typeof code === 'string' && typeof severity === 'string' ? code : null
}

function driverFaultOf(error: unknown): DriverFault {
  if (!(error instanceof Error)) return {}
  if (error.name === 'DriverAdapterError') return (error.cause ?? {}) as DriverFault
  if (!(error instanceof Prisma.PrismaClientKnownRequestError)) return {}
  return driverFaultOf(error.meta?.driverAdapterError)
}

/** Classes and codes: connection exceptions, insufficient resources, operator intervention, a transaction that was idle too long. */
const OUTAGE_STATES = /^(08|53|57P|25P03)/
/** Of driver adapters, for what never reached PostgreSQL. */
const OUTAGE_KINDS = new Set([
  'DatabaseNotReachable',
  'ConnectionClosed',
  'SocketTimeout',
  'TlsConnectionError',
  'TooManyConnections',
  'TransactionAlreadyClosed',
])
/** Of Prisma: not reachable, timed out, closed by the server, no place or no time for a transaction, too many connections. */
const OUTAGE_CODES = new Set(['P1001', 'P1002', 'P1008', 'P1011', 'P1017', 'P1018', 'P2024', 'P2028', 'P2037'])
/** Of Node's sockets. */
const SOCKET_CODES = new Set([
  ...['ECONNREFUSED', 'ECONNRESET', 'ECONNABORTED', 'EPIPE', 'ETIMEDOUT'],
  ...['ENOTFOUND', 'EAI_AGAIN', 'EHOSTUNREACH', 'ENETUNREACH'],
])
/** What `pg`, its pool, PGlite and ioredis say without any code. */
const OUTAGE_WORDS =
  /^(Connection terminated|Connection is closed|timeout e(xpired|xceeded when trying to connect)|Query read timeout|Client (has encountered a connection error|was closed) and is not queryable|Cannot use a pool after calling end on the pool|PGlite is clos)/

/**
 * Whether the database, and not what was asked of it, is at fault: the same again may succeed later. By PostgreSQL's code
 * where it gave one: whatever else it refuses (a number out of range, a text that it cannot hold, a key that is taken), it
 * will refuse again.
 */
export function isOutage(error: unknown): boolean {
  if (!(error instanceof Error)) return false
  const state = sqlStateOf(error)
  if (state !== null) return OUTAGE_STATES.test(state)
  const { code, errorCode, message } = error as Error & { code?: string; errorCode?: string }
  const named = code ?? errorCode ?? ''
  if (OUTAGE_CODES.has(named) || SOCKET_CODES.has(named)) return true
  return OUTAGE_KINDS.has(driverFaultOf(error).kind ?? '') || OUTAGE_WORDS.test(message)
}

/** A serialization failure or a deadlock: the transaction, run again, may succeed. */
export function isWriteConflict(error: unknown): boolean {
  const state = sqlStateOf(error)
  if (state !== null) return state === '40001' || state === '40P01'
  return error instanceof Prisma.PrismaClientKnownRequestError && error.code === 'P2034'
}

/** A statement that was prepared before another process migrated, and answers with other columns now: by that name it fails for good. */
export function isStalePlan(error: unknown): boolean {
  return sqlStateOf(error) === '0A000' && error instanceof Error && error.message.includes('cached plan')
}

/** A unique key refused a row. */
export function isUniqueViolation(error: unknown): boolean {
  return sqlStateOf(error) === '23505'
}
