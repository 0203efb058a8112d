import type { Viewer } from '../access/viewer.ts'
import { BadInputError, DomainError, RateLimitedError } from '../lib/errors.ts'

/**
 * A viewer at a protocol endpoint ("door"), whose GraphQL operations run in the same pipeline as those of every other transport. So an endpoint can
 * neither reveal nor do anything that GraphQL refuses, and its operations count towards the same limits.
 */
export interface Caller {
  viewer: Viewer
  /** Aborts when the client disconnects, or, with a DoorError as the reason, when its token ends. */
  signal: AbortSignal
  /**
   * Returns the data of a query or mutation, which has at most `maxBytes` of JSON: connections return fewer edges.
   * @throws DoorError
   */
  ask<Data>(query: string, variables: object, maxBytes?: number): Promise<Data>
  /**
   * Begins a subscription, and returns a function that ends it. It also ends when `signal` aborts. @throws DoorError if it cannot
   * begin
   */
  follow<Data>(query: string, variables: object, to: Follower<Data>): Promise<() => void>
}

export interface Follower<Data> {
  /** Called for one event at a time: the next one waits for the promise. */
  onEvent(data: Data): void | Promise<void>
  /** Called once, with the error that ended the subscription, if any, unless the client has ended it. */
  onEnd(error: DoorError | null): void
}

/** A response of server-sent events. */
export interface EventStream {
  /**
   * Writes an event. Resolves when the client has read enough to receive more. A long event waits until fewer bytes are in flight
   * to all clients.
   * @throws DoorError for an event over the limit of bytes; an error if the client has disconnected
   */
  write(text: string): Promise<void>
  end(): void
}

/** A call that waits for agents, or a stream that stays open. */
export interface Place {
  /** How many calls wait at the same time; 1 if absent. */
  count?: number
  /** Whether the request is served although the server shuts down, because it then ends at once: see `Door.endsAtDrain`. */
  isServedWhileDraining?: boolean
}

/** One request to an endpoint, and its response. */
export interface Exchange {
  caller: Caller
  /** Aborts with the signal of the caller, or when the server shuts down. */
  readonly waiting: AbortSignal
  method: string
  /** Without the path prefix of the endpoint. */
  path: string
  query: URLSearchParams
  header(name: string): string | undefined
  /** Returns all headers except credentials. */
  headers(): Headers
  /** Returns the parsed body. @throws DoorError if it is not JSON */
  json(): Promise<unknown>
  /**
   * Sends a response, once few enough bytes are in flight to all clients. @throws DoorError for a response over the limit of
   * bytes, or if there was no room for a response without effects
   */
  send(status: number, body: unknown, headers?: Record<string, string>): Promise<void>
  /** Sends a response that another package has created, at the pace of the client. */
  respond(response: Response): Promise<void>
  /**
   * Takes a place among the viewer's open streams until the response has ended, before an action that must not be done
   * unless the request can be served. @throws DoorError if the viewer has too many of them, or the server shuts down
   */
  takePlace(place?: Place): Promise<void>
  /** Begins a response of server-sent events, in the reserved place. */
  openStream(): EventStream
  /** Returns the absolute URL of a path, as the client reaches this server. */
  linkTo(path: string): string
  /** The largest event or response. */
  maxResponseBytes: number
}

/** The server side of another protocol. */
export interface Door {
  handle(exchange: Exchange): Promise<void>
  /** Returns the body of the response to a request that failed, in the format of the protocol. */
  failureOf(failure: DoorError): unknown
  /** Whether the endpoint ends its own streams and waits when `Exchange.waiting` aborts. Otherwise, streams are disconnected. */
  endsAtDrain: boolean
  /** The path of the OAuth metadata that a request without a valid token is referred to. */
  metadataPath?: string
}

/** The codes of expected failures: those of GraphQL's mutations, and of its top-level errors. */
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
  /** The status of the response, if it is not that of the code. */
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
/** The status of a failure after which clients must not send the request again automatically, as they do after 408, 409, 429 and 5xx. */
export const NOT_TO_RETRY = { status: 422 }

export const tooLong = (maxBytes: number, status?: { status: number }) =>
  new DoorError('BAD_INPUT', `The response would exceed ${maxBytes} bytes: request less at a time.`, status)

export const notFound = (message: string) => new DoorError('NOT_FOUND', message)

/** Converts an expected failure of the domain into one for clients. */
export function doorErrorOf(error: DomainError): DoorError {
  return new DoorError(error.code, error.message, {
    field: error instanceof BadInputError ? error.field : null,
    retryAfterMs: error instanceof RateLimitedError ? error.retryAfterMs : null,
  })
}

/** Returns a caller whose queries and mutations return at most so many bytes of JSON. */
export const within = (caller: Caller, maxBytes: number): Caller => ({
  ...caller,
  ask: (query, variables) => caller.ask(query, variables, maxBytes),
})

/** Calls the domain. @throws DoorError for an expected failure */
export async function failingAtDoor<T>(work: () => T | Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    throw error instanceof DomainError ? doorErrorOf(error) : error
  }
}

/** Returns the error that ends a request, for its client; null if the client has disconnected. */
export function endOf(error: unknown, { signal }: Caller): unknown {
  if (!signal.aborted) return error
  return signal.reason instanceof DoorError ? signal.reason : null
}

/** Whether the viewer may no longer read: its token has ended, or it has lost access. */
export const hasLostAccess = (error: DoorError | null): error is DoorError =>
  error !== null && (error.code === 'UNAUTHENTICATED' || error.code === 'FORBIDDEN')

/** Returns the time after which an operation that exceeded a rate may be tried again; null for any other error. */
export const retryAfterOf = (error: unknown): number | null =>
  error instanceof DoorError && error.code === 'RATE_LIMITED' ? (error.retryAfterMs ?? 0) : null
