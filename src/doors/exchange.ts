import type { Viewer } from '../access/viewer.ts'
import { BadInputError, DomainError, RateLimitedError } from '../lib/errors.ts'

/**
 * A viewer at a protocol endpoint ("door"), whose GraphQL operations run in the same pipeline as those of every
 * other transport. Therefore, an endpoint cannot reveal or do anything that GraphQL refuses, and its operations
 * count towards the same limits.
 */
export interface Caller {
  viewer: Viewer
  /** Aborts when the client disconnects. Also aborts when its token becomes invalid, with a DoorError as the reason. */
  signal: AbortSignal
  /**
   * Returns the data of a query or mutation. Connections return fewer edges if the data would exceed `maxBytes` of
   * JSON.
   * @throws DoorError
   */
  ask<Data>(query: string, variables: object, maxBytes?: number): Promise<Data>
  /**
   * Begins a subscription, which ends when the returned function is called or `signal` aborts.
   * @throws DoorError if the subscription cannot begin
   */
  follow<Data>(query: string, variables: object, to: Follower<Data>): Promise<() => void>
}

export interface Follower<Data> {
  /** Called for one event at a time. If it returns a promise, the next event waits until the promise resolves. */
  onEvent(data: Data): void | Promise<void>
  /**
   * Called once when the subscription ends. `error` is null if the subscription ended without one. Not called if
   * the follower itself ended the subscription.
   */
  onEnd(error: DoorError | null): void
}

/** A response of server-sent events. */
export interface EventStream {
  /**
   * Writes an event. Resolves when the client has read enough to receive more. If the event is long, first waits
   * while too many bytes are in flight to all clients.
   * @throws DoorError for an event over the size limit; another error if the client has disconnected
   */
  write(text: string): Promise<void>
  end(): void
}

/**
 * A slot among the viewer's open streams. A slot is needed for each stream, and for each call that waits for
 * agents.
 */
export interface Place {
  /** How many calls wait at the same time. Defaults to 1. */
  count?: number
  /**
   * Whether the request is served even while the server is shutting down. Such a request ends at once (see
   * `Door.endsAtDrain`).
   */
  isServedWhileDraining?: boolean
}

/** One request to an endpoint, and its response. */
export interface Exchange {
  caller: Caller
  /** Aborts when the caller's signal aborts, or when the server begins to shut down. */
  readonly waiting: AbortSignal
  method: string
  /** The path after the prefix of the endpoint. */
  path: string
  query: URLSearchParams
  header(name: string): string | undefined
  /** Returns all headers except credentials. */
  headers(): Headers
  /** Returns the parsed body. @throws DoorError if it is not JSON */
  json(): Promise<unknown>
  /**
   * Sends a response. Waits while too many bytes are in flight to all clients.
   * @throws DoorError for a response over the size limit. Also throws DoorError when the wait takes too long,
   * unless the request had effects.
   */
  send(status: number, body: unknown, headers?: Record<string, string>): Promise<void>
  /** Sends a response that another package has created, as fast as the client reads it. */
  respond(response: Response): Promise<void>
  /**
   * Reserves a slot among the viewer's open streams until the response has ended. Must be called before an action
   * that would be useless if the request could not be served.
   * @throws DoorError if the viewer has too many open streams, or the server is shutting down
   */
  takePlace(place?: Place): Promise<void>
  /** Begins a response of server-sent events, using the reserved slot. */
  openStream(): EventStream
  /** Returns the absolute URL of a path, as the client can reach it. */
  linkTo(path: string): string
  /** The maximum size of an event or response. */
  maxResponseBytes: number
}

/** The server side of a protocol other than GraphQL. */
export interface Door {
  handle(exchange: Exchange): Promise<void>
  /** Returns the body of the response to a failed request, in the format of the protocol. */
  failureOf(failure: DoorError): unknown
  /**
   * Whether the endpoint ends its streams and waiting calls itself when `Exchange.waiting` aborts. If this is
   * false, the server disconnects the open streams.
   */
  endsAtDrain: boolean
  /** The path of the OAuth metadata. The response to a request without a valid token contains this path. */
  metadataPath?: string
}

/** The codes of expected failures, which are those of GraphQL's mutations and of its top-level errors. */
export type DoorErrorCode =
  | 'BAD_INPUT'
  | 'UNAUTHENTICATED'
  | 'FORBIDDEN'
  | 'NOT_FOUND'
  | 'CONFLICT'
  | 'LIMIT_EXCEEDED'
  | 'RATE_LIMITED'
  | 'UNAVAILABLE'
  | 'INTERNAL_SERVER_ERROR'

const STATUS_OF: Record<DoorErrorCode, number> = {
  BAD_INPUT: 400,
  UNAUTHENTICATED: 401,
  FORBIDDEN: 403,
  NOT_FOUND: 404,
  CONFLICT: 409,
  LIMIT_EXCEEDED: 422,
  RATE_LIMITED: 429,
  UNAVAILABLE: 503,
  INTERNAL_SERVER_ERROR: 500,
}

interface DoorErrorDetails {
  /** The HTTP status of the response, if it differs from the usual status of the code. */
  status?: number
  /** The invalid input field. */
  field?: string | null
  retryAfterMs?: number | null
  headers?: Record<string, string>
}

/** A failure that is returned to clients. */
export class DoorError extends Error {
  readonly code: DoorErrorCode
  readonly status: number
  readonly field: string | null
  readonly retryAfterMs: number | null
  readonly headers: Record<string, string>
  constructor(code: DoorErrorCode, message: string, details: DoorErrorDetails = {}) {
    super(message)
    this.name = 'DoorError'
    this.code = code
    this.status = details.status ?? STATUS_OF[code]
    this.field = details.field ?? null
    this.retryAfterMs = details.retryAfterMs ?? null
    this.headers = details.headers ?? {}
  }
}

export const badInput = (message: string, field: string | null = null) => new DoorError('BAD_INPUT', message, { field })
/**
 * The HTTP status of failures after which clients must not retry automatically. Clients retry after statuses 408,
 * 409, 429 and 5xx.
 */
export const NOT_TO_RETRY = { status: 422 }

export const tooLong = (maxBytes: number, status?: { status: number }) =>
  new DoorError('BAD_INPUT', `The response would exceed ${maxBytes} bytes: request less data at a time.`, status)

export const notFound = (message: string) => new DoorError('NOT_FOUND', message)

/** Converts an expected failure of the domain to a DoorError. */
export function doorErrorOf(error: DomainError): DoorError {
  return new DoorError(error.code, error.message, {
    field: error instanceof BadInputError ? error.field : null,
    retryAfterMs: error instanceof RateLimitedError ? error.retryAfterMs : null,
  })
}

/** Returns a caller whose queries and mutations return at most `maxBytes` of JSON. */
export const within = (caller: Caller, maxBytes: number): Caller => ({
  ...caller,
  ask: (query, variables) => caller.ask(query, variables, maxBytes),
})

/** Runs a function of the domain layer. @throws DoorError for an expected failure */
export async function failingAtDoor<T>(work: () => T | Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    throw error instanceof DomainError ? doorErrorOf(error) : error
  }
}

/** Returns the error that is reported to the client when a request ends; null if the client has disconnected. */
export function endOf(error: unknown, { signal }: Caller): unknown {
  if (!signal.aborted) return error
  return signal.reason instanceof DoorError ? signal.reason : null
}

/** Whether the viewer may no longer read, because the token has become invalid or the viewer has lost access. */
export const hasLostAccess = (error: DoorError | null): error is DoorError =>
  error !== null && (error.code === 'UNAUTHENTICATED' || error.code === 'FORBIDDEN')

/**
 * Returns the time in ms after which an operation that exceeded a rate limit can be retried; null for any other
 * error.
 */
export const retryAfterOf = (error: unknown): number | null =>
  error instanceof DoorError && error.code === 'RATE_LIMITED' ? (error.retryAfterMs ?? 0) : null
