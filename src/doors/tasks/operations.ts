import type { ServerResponse } from 'node:http'
import type { Viewer } from '../../access/viewer.ts'

/** The sender of a request, and the response to it. */
export interface Caller {
  viewer: Viewer
  /** The origin to which the request was sent, as its client sees it. */
  askedOrigin: string | null
  /** Aborts when the client has disconnected. */
  signal: AbortSignal
  response: ServerResponse
}

/**
 * Runs GraphQL operations for the door, through the pipeline of every other transport: rights, rates, limits of bytes and
 * of concurrent work, and masked errors. So nobody may do by the door what they may not do by GraphQL.
 */
export interface Operations {
  /** Returns the data of a query or mutation. @throws OperationError */
  run<T>(caller: Caller, document: string, variables: Variables): Promise<T>
  /**
   * Begins a subscription. `onEnd` is called once, with the error that ended it, if any, unless the returned function has
   * ended it before. @throws OperationError if it cannot begin
   */
  follow<T>(caller: Caller, document: string, variables: Variables, to: Follower<T>): Promise<() => void>
  /** Returns the id of the space of the viewer, the agent and the thread; creates it if there is none. @throws OperationError */
  converse(caller: Caller, input: { agentId: string; thread: string; name: string }): Promise<string>
}

export type Variables = Readonly<Record<string, unknown>>

export interface Follower<T> {
  onEvent(data: T): void
  onEnd(error: OperationError | null): void
}

/** An operation failed in a way that its client may read about. */
export class OperationError extends Error {
  /** A code of GraphQL's top-level errors, or of the errors of mutations. */
  readonly code: string
  /** Set if the client may try again after this time. */
  readonly retryAfterMs: number | null
  constructor(code: string, message: string, retryAfterMs: number | null = null) {
    super(message)
    this.name = 'OperationError'
    this.code = code
    this.retryAfterMs = retryAfterMs
  }
}

/** Whether the viewer may not read on: its token has ended, or it has lost access. */
export const hasLostAccess = (error: OperationError | null): error is OperationError =>
  error !== null && (error.code === 'UNAUTHENTICATED' || error.code === 'FORBIDDEN')

/** Returns the time after which an operation that exceeded a rate may be tried again; null for any other error. */
export const retryAfterOf = (error: unknown): number | null =>
  error instanceof OperationError ? error.retryAfterMs : null

/** The result of a mutation: its payload, or one of the errors that it lists. */
export type MutationResult<T> = T | { code: string; message: string; retryAfterMs?: number }

/** Returns the payload of a mutation. @throws OperationError if the result is an error */
export function payloadOf<T extends object>(result: MutationResult<T>): T {
  if (!('code' in result)) return result as T
  const { code, message, retryAfterMs = null } = result as { code: string; message: string; retryAfterMs?: number }
  throw new OperationError(code, message, retryAfterMs)
}

/** Returns a function that runs a mutation with one input, and returns its payload. */
export const mutateBy =
  (run: Operations['run']) =>
  async <T extends object>(caller: Caller, document: string, input: object): Promise<T> => {
    const results = await run<Record<string, MutationResult<T>>>(caller, document, { input })
    return payloadOf(Object.values(results)[0] as MutationResult<T>)
  }
