// Runs the GraphQL operations of sockets through the pipeline that HTTP uses.
import { type ExecutionArgs, type ExecutionResult, GraphQLError } from 'graphql'
import type { ServerOptions, SubscribePayload } from 'graphql-ws'
import type { Viewer } from '../../access/viewer.ts'
import { MOST_OF_SOCKET, tooManySubscriptions } from '../../delivery/subscription-limits.ts'
import { formatError, type MaskError, type WireError } from '../../graphql/masking.ts'
import { UnauthenticatedError } from '../../lib/errors.ts'
import { inexactNumberError } from '../../lib/exact-json.ts'
import type { Graphql } from '../http/graphql.ts'
import { errorsOf, type Operation, OperationFailed, prepareOperation, type Result } from '../http/operation.ts'
import { createUnanswered } from '../http/unanswered.ts'
import { LONGEST_OPERATION_ID } from '../request-bytes.ts'
import type { SocketWriter } from './socket-writer.ts'

/** The state of a socket whose connection was acknowledged. */
export interface Session {
  viewer: Viewer | null
  /**
   * Whether the viewer's token is no longer valid. Then, no further operation is started, and the socket is about
   * to be closed.
   */
  ended: boolean
  /** Subscriptions that are running or have just ended, by id, each with the message that started it. */
  subscriptions: Map<string, SubscribePayload>
  /** Running operations by id, each with the message that started it. */
  running: Map<string, SubscribePayload>
  /** The operations to refuse, by id. Each value is the number in the operation's message that JSON.parse changed. */
  inexactNumbers: Map<string, string>
  writer: SocketWriter
  /** The origin to which the client opened the socket. */
  askedOrigin: string | null
  /** The size of the frame that is being handled. */
  receivedBytes: number
  /**
   * Called when an operation was refused because its viewer exceeded the rate. `count`: how many refusals it counts
   * as.
   */
  wasRefused(count?: number): void
  /** Closes the socket because an operation id is longer than allowed. */
  refuseId(): void
  /** Aborts when the socket is closed. */
  closed: AbortSignal
}

/**
 * The arguments that graphql-ws passes back for the execution. graphql-ws keeps them in memory as long as the
 * operation runs.
 */
interface OperationArgs extends Omit<Operation, 'run'> {
  /** Whether the client has ended this operation and started another one with the same id. */
  isReplaced(): boolean
  /** Called when the result is dropped because the operation was replaced. */
  onDropped(): void
  /** Set to null when it is called, so that data needed only for the start is freed. */
  run: (() => Promise<Result>) | null
}

/** Makes graphql-ws send an `error` message, which ends the operation. */
async function* failing(errors: readonly GraphQLError[]): AsyncGenerator<ExecutionResult> {
  yield* []
  throw new OperationFailed(errors)
}

/**
 * Wraps an iteration so that it never settles once its operation is replaced. graphql-ws identifies operations only
 * by id, so it would attribute the results and the end of the replaced operation to the new one.
 */
function silenced(iteration: AsyncIterable<ExecutionResult>, isReplaced: () => boolean) {
  const inner = iteration[Symbol.asyncIterator]()
  const outer: AsyncIterableIterator<ExecutionResult> = {
    [Symbol.asyncIterator]: () => outer,
    async next() {
      try {
        return await inner.next()
      } finally {
        if (isReplaced()) await never()
      }
    },
    async return() {
      await inner.return?.()
      return { done: true, value: undefined }
    },
  }
  return outer
}

/** Returns a new promise for each call, because a shared promise would retain everything that awaits it. */
const never = () => new Promise<never>(() => {})

type AllHooks = ServerOptions<Record<string, unknown>, { session: Session }>
type Hooks = Pick<AllHooks, 'onSubscribe' | 'onNext' | 'onError' | 'onComplete' | 'execute' | 'subscribe'>
type SessionHooks = { [Name in keyof Hooks]-?: NonNullable<Hooks[Name]> }

/** Runs the operations of all sockets. */
export interface SocketOperations {
  hooks: SessionHooks
  /** Starts no new operation. Resolves once no query or mutation is running, or after `timeoutMs`. */
  drain(timeoutMs: number): Promise<void>
}

/**
 * Executes the operations of sockets through the pipeline that HTTP uses. An error becomes the result of its
 * operation. Nothing here throws, because that would close the socket.
 */
export function socketOperations(graphql: Graphql, maskError: MaskError): SocketOperations {
  const unanswered = createUnanswered()
  /**
   * The functions to call when the response to a message has been sent. graphql-ws completes an operation when the
   * kernel has accepted its response.
   */
  const whenSent = new WeakMap<SubscribePayload, () => void>()

  const onSent =
    ({ closed }: Session, payload: SubscribePayload) =>
    (listener: () => void) => {
      if (closed.aborted) return listener()
      const end = () => {
        closed.removeEventListener('abort', end)
        listener()
      }
      whenSent.set(payload, end)
      closed.addEventListener('abort', end)
    }

  async function begin(
    session: Session,
    isOpen: (id: string) => boolean,
    id: string,
    payload: SubscribePayload,
  ): Promise<Omit<OperationArgs, 'isReplaced' | 'onDropped'>> {
    const { viewer, writer, closed: signal } = session
    if (viewer === null || session.ended)
      throw new UnauthenticatedError('Your token is no longer valid. Sign in with another token.')
    const inexact = session.inexactNumbers.get(id)
    session.inexactNumbers.delete(id)
    if (inexact !== undefined) throw inexactNumberError(inexact)
    const sending = {
      onSent: onSent(session, payload),
      waitingBytes: () => writer.waitingBytes(),
      cutOff: writer.giveUp,
    }
    const { askedOrigin } = session
    const context = {
      viewer,
      signal,
      sending,
      askedOrigin,
      onSlow: writer.giveUp,
      sink: writer.sinkOf(id),
      requestBytes: session.receivedBytes,
    }
    const operation = prepareOperation(graphql, context, payload)
    if (operation.isSubscription) {
      if ([...session.subscriptions.keys()].filter(isOpen).length >= MOST_OF_SOCKET) {
        throw tooManySubscriptions(
          `A socket can have at most ${MOST_OF_SOCKET} subscriptions: open another socket, or end some.`,
        )
      }
      session.subscriptions.set(id, payload)
    }
    return operation
  }

  async function run(args: ExecutionArgs): Promise<Result> {
    const operation = args as OperationArgs
    const { isReplaced, onDropped } = operation
    const result = await resultOf(operation)
    if (Symbol.asyncIterator in result) {
      const iteration = silenced(result, isReplaced)
      if (!isReplaced()) return iteration
      await iteration.return?.()
    }
    if (!isReplaced()) return result
    onDropped()
    return never()
  }

  async function resultOf(operation: OperationArgs): Promise<Result> {
    try {
      const begin = operation.run
      operation.run = null
      const result = (await begin?.()) ?? {}
      if (Symbol.asyncIterator in result || result.data != null) return result
      const isRequestError = !('data' in result) || operation.isSubscription
      return isRequestError ? failing(result.errors ?? []) : result
    } catch (error) {
      return failing(errorsOf(error, maskError))
    }
  }

  const hooks: SessionHooks = {
    async onSubscribe({ extra: { session }, subscriptions }, id, payload) {
      // The server is draining, so the client will send the operation again after it reconnects.
      if (unanswered.isDraining()) return never()
      if (id.length > LONGEST_OPERATION_ID) {
        session.refuseId()
        return never()
      }
      const { running } = session
      const replaced = running.get(id)
      if (replaced !== undefined) unanswered.delete(replaced)
      running.set(id, payload)
      unanswered.add(payload)
      // If an id is repeated, the client must have ended the earlier operation with this id. Otherwise, graphql-ws
      // would have closed the socket.
      session.subscriptions.delete(id)
      const isReplaced = () => running.has(id) && running.get(id) !== payload
      try {
        const operation = await begin(session, (open) => open in subscriptions, id, payload)
        if (operation.isSubscription) unanswered.delete(payload)
        return { ...operation, isReplaced, onDropped: () => whenSent.get(payload)?.() }
      } catch (error) {
        unanswered.delete(payload)
        if (isReplaced()) return never()
        running.delete(id)
        return errorsOf(error, maskError)
      }
    },
    execute: run as never,
    subscribe: run as never,
    onNext(_context, _id, _payload, _args, { errors, ...result }) {
      return { ...result, ...(errors === undefined ? {} : { errors: errors.map(formatError) }) } as never
    },
    onError({ extra: { session } }, _id, _payload, errors) {
      const told = errors.flatMap((error) => wireErrorsOf(error, maskError))
      if (told.some(({ extensions }) => extensions['code'] === 'RATE_LIMITED')) session.wasRefused()
      return told as never
    },
    onComplete({ extra: { session } }, id, payload) {
      unanswered.delete(payload)
      whenSent.get(payload)?.()
      for (const operations of [session.running, session.subscriptions]) {
        if (operations.get(id) === payload) operations.delete(id)
      }
    },
  }
  return { hooks, drain: unanswered.drain }
}

/**
 * Removes graphql-ws' wrapper from an error thrown by an iteration. Masks the inner error unless it is masked
 * already.
 */
function wireErrorsOf(error: GraphQLError, maskError: MaskError): WireError[] {
  const inner = error.originalError ?? error
  if (inner instanceof OperationFailed) return inner.errors.map(formatError)
  const isFinal = inner instanceof GraphQLError && typeof inner.extensions['code'] === 'string'
  return [formatError(isFinal ? inner : maskError(inner))]
}
