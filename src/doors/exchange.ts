import type { Viewer } from '../access/viewer.ts'

/**
 * A viewer at a door, who runs GraphQL operations in the pipeline of every other transport. So a door can neither show
 * nor do anything that GraphQL refuses, and its operations count towards the same limits.
 */
export interface Caller {
  viewer: Viewer
  /** Aborts when the client has gone. */
  signal: AbortSignal
  /** Returns the data of a query or mutation. @throws DoorError */
  ask<Data>(query: string, variables: object): Promise<Data>
  /** Yields the data of the events of a subscription. Ends with `return`. @throws DoorError, also for one that ends it */
  subscribe<Data>(query: string, variables: object): AsyncIterableIterator<Data>
}

/** A response of events. */
export interface EventStream {
  /** Resolves when the client has read enough to be sent more. */
  write(text: string): Promise<void>
  end(): void
}

/** One request to a door, and its response. */
export interface Exchange {
  method: string
  /** Without its prefix. */
  path: string
  query: URLSearchParams
  header(name: string): string | undefined
  /** @throws UnauthenticatedError */
  caller(): Promise<Caller>
  /** Returns the parsed body. @throws DoorError if it is no JSON */
  json(): Promise<unknown>
  send(status: number, body: unknown, headers?: Record<string, string>): void
  /**
   * Takes a place among the viewer's open streams until the response has ended, before something that must not be done in
   * vain. @throws DoorError if the viewer has too many of them, or the server shuts down
   */
  takePlace(): void
  /** Begins a response of server-sent events, in its place or a new one. @throws DoorError if the viewer has too many of them, or the server shuts down */
  openStream(): EventStream
  /** Returns the absolute URL of a path of the console, as the client reaches this server. */
  linkTo(path: string): string
  /** The largest event or response. */
  maxResponseBytes: number
}

/** The server side of another protocol. */
export interface Door {
  handle(exchange: Exchange): Promise<void>
  /** Returns the body of the response to a request that failed, in the format of the protocol. */
  failureOf(failure: DoorError): unknown
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
  /** The input field at fault. */
  field?: string | null
  retryAfterMs?: number | null
  headers?: Record<string, string>
}

/** A failure that clients read. */
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
export const notFound = (message: string) => new DoorError('NOT_FOUND', message)
