import { type ExecutionResult, GraphQLError } from 'graphql'
import {
  BadInputError,
  DomainError,
  type DomainErrorCode,
  messageOf,
  RateLimitedError,
  UnauthenticatedError,
} from '../../lib/errors.ts'
import { counter } from '../../lib/metrics.ts'
import type { Platform } from '../../platform/platform.ts'
import { SlowConsumerError } from '../../realtime/event-log.ts'
import { requestIdHere } from './request-ids.ts'

/** Every `extensions.code` of a top-level error that a client may meet: the contract, "Errors and growth". */
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

/** What the GraphQL server itself says of a faulty request, in our words. */
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
 * Turns whatever was thrown into what a client may read: a known fault with its code, anything else masked and logged. What is
 * readable already stays as it is.
 */
export type MaskError = (error: unknown) => GraphQLError

/** How a request is answered that comes to one error and nothing else. `spec`: not for clients that ask for plain JSON. */
interface HttpAnswer {
  status: number
  spec?: boolean
  headers?: Record<string, string>
}

/** What goes with a 401, so that clients know what is asked of them. */
export const CHALLENGE = { 'www-authenticate': 'Bearer realm="parley"' }

/** An error that is ready for clients. `http` sets the status of a request that came to nothing else. */
export function topLevelError(code: TopLevelCode, message: string, http?: HttpAnswer): GraphQLError {
  return new GraphQLError(message, { extensions: { code, ...(http ? { http } : {}) } })
}

/** The error itself, without the places in documents that GraphQL has put around it. */
function rootOf(error: unknown): unknown {
  let root = error
  while (root instanceof GraphQLError && root.originalError) root = root.originalError
  return root
}

/** The code of a fault that is the client's; null for everything that is not. */
function codeOf(root: unknown, error: unknown): TopLevelCode | null {
  if (root instanceof UnauthenticatedError) return 'UNAUTHENTICATED'
  if (root instanceof DomainError) return CODE_OF_DOMAIN_ERROR[root.code]
  // Its socket is closed with 1013 at the same time.
  if (root instanceof SlowConsumerError) return 'RATE_LIMITED'
  if (!(root instanceof GraphQLError)) return null
  const { code } = root.extensions
  if (typeof code === 'string' && OWN_CODES.has(code)) return code as TopLevelCode
  if (typeof code === 'string') return CODE_OF_SERVER_ERROR[code] ?? null
  // GraphQL's own: of variables before the execution, where nothing has a path yet, and of arguments during it.
  const isOfRequest = !(error instanceof GraphQLError) || error.path === undefined
  return isOfRequest || root.message.startsWith('Argument "') ? 'BAD_USER_INPUT' : null
}

function detailsOf(root: unknown): Record<string, unknown> {
  if (root instanceof BadInputError && root.field !== null) return { field: root.field }
  if (root instanceof RateLimitedError) return { retryAfterMs: root.retryAfterMs }
  return {}
}

/** "Did you mean" would tell names that introspection may not. */
function withoutSuggestion(message: string): string {
  return message.replace(/ Did you mean [\s\S]+\?$/, '')
}

export function createMasking({ logger, metrics }: Pick<Platform, 'logger' | 'metrics'>): MaskError {
  const unexpected = counter(
    metrics,
    'parley_unexpected_errors_total',
    'Unexpected errors of operations. Clients receive a request id; the log holds the details.',
  )
  const masked = new WeakSet<GraphQLError>()

  function mask(error: unknown): GraphQLError {
    const root = rootOf(error)
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

/** A request that is none: whatever the client wants to be answered in. */
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
  if (root instanceof RateLimitedError) {
    return { status: 429, headers: { 'retry-after': String(Math.ceil(root.retryAfterMs / 1000)) } }
  }
  if (code === 'RATE_LIMITED') return { status: 429 }
  return { status: 400, spec: true }
}

/** A result as it goes over the wire: one that has been written out for others already comes with that. */
export function jsonOf(result: ExecutionResult & { stringify?: () => string }): string {
  if (result.stringify !== undefined) return result.stringify()
  return JSON.stringify({ ...result, ...(result.errors ? { errors: result.errors.map(formatError) } : {}) })
}

/** An error as it goes over the wire. */
export interface WireError {
  extensions: Record<string, unknown>
}

/** What goes over the wire: `extensions.http` is for the server alone. */
export function formatError(error: GraphQLError): WireError {
  const { http: _, ...extensions } = error.extensions
  return { ...error.toJSON(), extensions }
}
