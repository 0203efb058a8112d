import { Prisma } from '../generated/prisma/client.ts'

/**
 * An error from a Prisma driver adapter. An error that PostgreSQL reported has PostgreSQL's code. Any other error has
 * one of the adapter's own names.
 */
interface DriverFault {
  originalCode?: string
  originalMessage?: string
  kind?: string
}

/**
 * Returns the SQLSTATE of an error from Prisma, its driver adapters, `pg` or PGlite. Returns null if PostgreSQL did not
 * report the error. For a raw statement, Prisma throws P2010 and keeps the driver's error in `meta`.
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

/**
 * SQLSTATE classes and codes for connection exceptions, insufficient resources, operator intervention, and a
 * transaction that was idle for too long.
 */
const OUTAGE_STATES = /^(08|53|57P|25P03)/
/** The names that driver adapters give to errors that PostgreSQL did not report. */
const OUTAGE_KINDS = new Set([
  'DatabaseNotReachable',
  'ConnectionClosed',
  'SocketTimeout',
  'TlsConnectionError',
  'TooManyConnections',
  'TransactionAlreadyClosed',
])
/**
 * Prisma's codes for an unreachable server, a timeout, a connection closed by the server, a lack of free connections or
 * of time for a transaction, and too many connections.
 */
const OUTAGE_CODES = new Set(['P1001', 'P1002', 'P1008', 'P1011', 'P1017', 'P1018', 'P2024', 'P2028', 'P2037'])
/** Error codes of Node's sockets. */
const SOCKET_CODES = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'ECONNABORTED',
  'EPIPE',
  'ETIMEDOUT',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
])
/** Parts of messages of errors without a code, from `pg`, its pool, PGlite and ioredis. */
const OUTAGE_WORDS =
  /^(Connection terminated|Connection is closed|timeout e(xpired|xceeded when trying to connect)|Query read timeout|Client (has encountered a connection error|was closed) and is not queryable|Cannot use a pool after calling end on the pool|PGlite is clos)/

/**
 * Whether an outage of the database, and not the statement, caused the error, so that a retry may succeed. If
 * PostgreSQL reported a code, only the code is checked.
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

/** Matches the errors of the pool and of Prisma when no connection became free in time. */
const NO_CONNECTION = /(timeout exceeded when trying to connect|Unable to start a transaction in the given time)/

/** Whether a statement or transaction waited too long for a connection and was never started. */
export function isOverload(error: unknown): boolean {
  return error instanceof Error && sqlStateOf(error) === null && NO_CONNECTION.test(error.message)
}

/** Whether an error is a serialization failure or a deadlock, so that repeating the transaction may succeed. */
export function isWriteConflict(error: unknown): boolean {
  const state = sqlStateOf(error)
  if (state !== null) return state === '40001' || state === '40P01'
  return error instanceof Prisma.PrismaClientKnownRequestError && error.code === 'P2034'
}

/**
 * Whether a prepared statement has become invalid because a migration by another process changed its result columns.
 * The statement fails until it is prepared under another name.
 */
export function isStalePlan(error: unknown): boolean {
  return sqlStateOf(error) === '0A000' && error instanceof Error && error.message.includes('cached plan')
}

/** Whether a unique constraint rejected a row. */
export function isUniqueViolation(error: unknown): boolean {
  return sqlStateOf(error) === '23505'
}

/** Whether the unique index with this name rejected a row. */
export function isViolationOf(index: string, error: unknown): boolean {
  if (!isUniqueViolation(error)) return false
  const { originalMessage } = driverFaultOf(error)
  return (originalMessage ?? (error as Error).message).includes(`"${index}"`)
}
