import { type ExecutionResult, GraphQLError } from 'graphql'
import {
  BadInputError,
  CrossSiteError,
  DomainError,
  type DomainErrorCode,
  messageOf,
  RateLimitedError,
  SlowConsumerError,
  UnauthenticatedError,
} from '../lib/errors.ts'
import { requestIdHere } from '../lib/log-context.ts'
import { counter } from '../lib/metrics.ts'
import type { Platform } from '../platform/platform.ts'

/**
 * All values of `extensions.code` in top-level errors. They are part of the API's contract (section "Errors and
 * growth").
 */
export type TopLevelCode =
  | 'UNAUTHENTICATED'
  | 'FORBIDDEN'
  | 'NOT_FOUND'
  | 'BAD_USER_INPUT'
  | 'GRAPHQL_PARSE_FAILED'
  | 'GRAPHQL_VALIDATION_FAILED'
  | 'QUERY_TOO_COMPLEX'
  | 'RATE_LIMITED'
  | 'INTERNAL_SERVER_ERROR'

const CODE_OF_DOMAIN_ERROR: Record<DomainErrorCode, TopLevelCode> = {
  BAD_INPUT: 'BAD_USER_INPUT',
  FORBIDDEN: 'FORBIDDEN',
  NOT_FOUND: 'NOT_FOUND',
  CONFLICT: 'BAD_USER_INPUT',
  LIMIT_EXCEEDED: 'BAD_USER_INPUT',
  RATE_LIMITED: 'RATE_LIMITED',
}

/** The codes of GraphQL Yoga's own errors, and the codes that replace them. */
const CODE_OF_SERVER_ERROR: Record<string, TopLevelCode> = {
  BAD_REQUEST: 'BAD_USER_INPUT',
  REQUEST_ENTITY_TOO_LARGE: 'BAD_USER_INPUT',
  OPERATION_RESOLUTION_FAILURE: 'BAD_USER_INPUT',
}

const OWN_CODES: ReadonlySet<string> = new Set([
  'UNAUTHENTICATED',
  'QUERY_TOO_COMPLEX',
  'GRAPHQL_PARSE_FAILED',
  'GRAPHQL_VALIDATION_FAILED',
  'BAD_USER_INPUT',
  'RATE_LIMITED',
] satisfies TopLevelCode[])

/**
 * Converts an error to an error for clients. If the error is expected, the new error has its code. Any other error
 * is logged and masked. An error that is already masked is returned unchanged.
 */
export type MaskError = (error: unknown) => GraphQLError

/**
 * The HTTP response to a request that failed as a whole. `spec`: the status for clients that accept
 * `application/graphql-response+json`.
 */
interface HttpAnswer {
  status: number
  spec?: boolean
  headers?: Record<string, string>
}

/** The header of a response with status 401. It states the authentication scheme. */
export const CHALLENGE = { 'www-authenticate': 'Bearer realm="parley"' }

/** Creates an error for clients. `http` sets the response status if the whole request failed. */
export function topLevelError(code: TopLevelCode, message: string, http?: HttpAnswer): GraphQLError {
  return new GraphQLError(message, { extensions: { code, ...(http ? { http } : {}) } })
}

/** The time after which a client may try again if the database is overloaded or does not respond. */
const OVERLOAD_MS = 5000

/** Returns the original error, without the GraphQLErrors that wrap it. */
function rootOf(error: unknown): unknown {
  let root = error
  while (root instanceof GraphQLError && root.originalError) root = root.originalError
  return root
}

const overloaded = () =>
  new RateLimitedError(
    'The server is too busy: this part of the request was not started. Try again later.',
    OVERLOAD_MS,
  )

/** Returns the code of an error that the client caused; null for any other error. */
function codeOf(root: unknown, error: unknown): TopLevelCode | null {
  if (root instanceof UnauthenticatedError) return 'UNAUTHENTICATED'
  if (root instanceof DomainError) return CODE_OF_DOMAIN_ERROR[root.code]
  // A SlowConsumerError also closes the socket, with code 1013.
  if (root instanceof SlowConsumerError) return 'RATE_LIMITED'
  if (!(root instanceof GraphQLError)) return null
  const { code } = root.extensions
  if (typeof code === 'string' && OWN_CODES.has(code)) return code as TopLevelCode
  if (typeof code === 'string') return CODE_OF_SERVER_ERROR[code] ?? null
  // graphql-js reports invalid variables before the execution, with errors that have no path. It reports invalid
  // arguments during the execution.
  const isOfRequest = !(error instanceof GraphQLError) || error.path === undefined
  return isOfRequest || root.message.startsWith('Argument "') ? 'BAD_USER_INPUT' : null
}

function detailsOf(root: unknown): Record<string, unknown> {
  if (root instanceof BadInputError && root.field !== null) return { field: root.field }
  if (root instanceof RateLimitedError) return { retryAfterMs: root.retryAfterMs }
  return {}
}

/** Removes suggestions from a message, because they may contain names that introspection does not show. */
function withoutSuggestion(message: string): string {
  return message.replace(/ Did you mean [\s\S]+\?$/, '')
}

/** The errors that some masking function has already masked. */
const masked = new WeakSet<GraphQLError>()

/** `isOverload`: whether the client should try again, because the database is too busy or does not respond. */
export function createMasking(
  { logger, metrics }: Pick<Platform, 'logger' | 'metrics'>,
  isOverload: (error: unknown) => boolean,
): MaskError {
  const unexpected = counter(
    metrics,
    'parley_unexpected_errors_total',
    'Unexpected errors of operations. Clients receive a request id; the log holds the details.',
  )
  function mask(error: unknown): GraphQLError {
    const cause = rootOf(error)
    const isTooBusy = isOverload(cause)
    if (isTooBusy)
      logger.warn({ requestId: requestIdHere(), error: messageOf(cause) }, 'an operation could not use the database')
    const root = isTooBusy ? overloaded() : cause
    const code = codeOf(root, error)
    const place = error instanceof GraphQLError ? error : null
    const at = { nodes: place?.nodes, source: place?.source, positions: place?.positions, path: place?.path }
    if (code === null) {
      unexpected.inc()
      const requestId = requestIdHere()
      logger.error(
        { requestId, path: place?.path, error: root instanceof Error ? (root.stack ?? root.message) : messageOf(root) },
        'an operation failed with an unexpected error',
      )
      const extensions = { code: 'INTERNAL_SERVER_ERROR', requestId, ...(place?.path ? {} : { http: { status: 500 } }) }
      return new GraphQLError('Internal server error. Report the request id to the operator.', {
        ...at,
        extensions,
      })
    }
    const status = answerWith(code, root, place)
    const extensions = { code, ...detailsOf(root), ...(status ? { http: status } : {}) }
    const message = root instanceof GraphQLError && place !== null ? place.message : messageOf(root)
    return new GraphQLError(withoutSuggestion(message), { ...at, extensions })
  }

  return (error) => {
    if (error instanceof GraphQLError && masked.has(error)) return error
    const readable = mask(error)
    masked.add(readable)
    return readable
  }
}

/** The response to a request that cannot be parsed, regardless of its `Accept` header. */
const UNREADABLE: HttpAnswer = { status: 400 }

function isUnreadable(root: unknown): boolean {
  const { code, http } = (root instanceof GraphQLError ? root.extensions : {}) as { code?: string; http?: HttpAnswer }
  return code === 'BAD_REQUEST' && http?.status === 400
}

function answerWith(code: TopLevelCode, root: unknown, place: GraphQLError | null): unknown {
  if (isUnreadable(root)) return UNREADABLE
  return place?.extensions['http'] ?? (place?.path === undefined ? httpOf(code, root) : undefined)
}

function httpOf(code: TopLevelCode, root: unknown): HttpAnswer {
  if (code === 'UNAUTHENTICATED') return { status: 401, headers: CHALLENGE }
  if (root instanceof CrossSiteError) return { status: 403 }
  if (root instanceof RateLimitedError) {
    return { status: 429, headers: { 'retry-after': String(Math.ceil(root.retryAfterMs / 1000)) } }
  }
  if (code === 'RATE_LIMITED') return { status: 429 }
  return { status: 400, spec: true }
}

/** Serializes a result. The result of a subscription may already be serialized. */
export function jsonOf(result: ExecutionResult & { stringify?: () => string }): string {
  if (result.stringify !== undefined) return result.stringify()
  return JSON.stringify({ ...result, ...(result.errors ? { errors: result.errors.map(formatError) } : {}) })
}

/** A serialized error. */
export interface WireError {
  extensions: Record<string, unknown>
}

/** Converts an error for the response. Omits `extensions.http`, which only the server uses. */
export function formatError(error: GraphQLError): WireError {
  const { http: _, ...extensions } = error.extensions
  return { ...error.toJSON(), extensions }
}
