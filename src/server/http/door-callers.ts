import type { ServerResponse } from 'node:http'
import type { ExecutionResult, GraphQLError } from 'graphql'
import type { Viewer } from '../../access/viewer.ts'
import type { Answer, Sink } from '../../delivery/answer.ts'
import { type Caller, DoorError, type DoorErrorCode, doorErrorOf, type Follower } from '../../doors/exchange.ts'
import type { MaskError } from '../../graphql/masking.ts'
import { DomainError, RateLimitedError } from '../../lib/errors.ts'
import type { Sending } from '../responses-in-flight.ts'
import { BodyRefusedError } from './body.ts'
import type { Graphql } from './graphql.ts'
import { errorsOf, prepareOperation } from './operation.ts'

/** The viewer of an operation, and the request that the operation belongs to. */
export interface CallerContext {
  viewer: Viewer
  signal: AbortSignal
  askedOrigin: string | null
  response: ServerResponse
}

/**
 * Creates a caller, which executes GraphQL operations for a protocol endpoint in the pipeline that all transports
 * share.
 */
export type Callers = (context: CallerContext) => Caller

export function createCallers({ graphql, maskError }: { graphql: Graphql; maskError: MaskError }): Callers {
  async function run({ response, ...context }: RunContext, query: string, variables: object) {
    // Each operation gets its own `sending`, because several operations of a request may run at once.
    const sending = createSending(response)
    try {
      const request = { query, variables: variables as Record<string, unknown> }
      return await prepareOperation(graphql, { ...context, sending }, request).run()
    } catch (error) {
      throw failureOf(error, maskError)
    } finally {
      sending.release()
    }
  }

  return (given) => {
    // `onSlow` does not use `cutOff` of an operation's `sending`. If a subscription referenced `sending`,
    // everything that `sending` references would stay in memory.
    const context = { ...given, onSlow: () => void given.response?.destroy() }
    return {
      viewer: given.viewer,
      signal: given.signal,
      async ask<Data>(query: string, variables: object, maxBytes?: number) {
        const limit = maxBytes === undefined ? {} : { maxResponseBytes: maxBytes }
        const { data, errors } = (await run({ ...context, ...limit }, query, variables)) as ExecutionResult
        given.signal.throwIfAborted()
        if (errors !== undefined && errors.length > 0) throw failureOfErrors(errors.map(maskError))
        return data as Data
      },
      async follow<Data>(query: string, variables: object, to: Follower<Data>) {
        const following = new Following(to as Follower<unknown>, given.signal, maskError)
        const result = await run({ ...context, sink: following }, query, variables)
        if (!(Symbol.asyncIterator in result)) throw failureOfErrors((result.errors ?? []).map(maskError))
        following.begin(result[Symbol.asyncIterator]())
        return () => following.end()
      },
    }
  }
}

type RunContext = CallerContext & { onSlow(): void; sink?: Sink; maxResponseBytes?: number }

/** Passes the events of a subscription to its follower, one at a time. An idle subscription uses little memory. */
class Following implements Sink {
  readonly #to: Follower<unknown>
  readonly #signal: AbortSignal
  readonly #maskError: MaskError
  #waiting: Answer[] = []
  #isDelivering = false
  #isOver = false
  #iteration: AsyncIterator<unknown> | null = null
  #failure: DoorError | null = null
  /** Whether the subscription has ended. `#failure` is the error that ended it. */
  #hasEnded = false
  #onReady: (() => void)[] = []
  readonly #onAbort = () => this.end()

  constructor(to: Follower<unknown>, signal: AbortSignal, maskError: MaskError) {
    this.#to = to
    this.#signal = signal
    this.#maskError = maskError
  }

  /** @param iteration yields nothing and ends when the subscription ends */
  begin(iteration: AsyncIterator<unknown>): void {
    this.#iteration = iteration
    this.#signal.addEventListener('abort', this.#onAbort, { once: true })
    if (this.#signal.aborted) this.end()
    iteration.next().then(
      () => this.#finish(null),
      (error: unknown) => this.#finish(error),
    )
  }

  send(answers: readonly Answer[]): void {
    if (this.#isOver) return
    this.#waiting.push(...answers)
    this.#deliver()
  }

  isBusy = (): boolean => this.#isDelivering

  whenReady(listener: () => void): () => void {
    this.#onReady = [...this.#onReady, listener]
    return () => {
      this.#onReady = this.#onReady.filter((one) => one !== listener)
    }
  }

  /** Delivers the waiting events until the follower returns a promise. When the promise settles, continues. */
  #deliver(): void {
    if (this.#isDelivering) return
    this.#isDelivering = true
    for (let answer = this.#waiting.shift(); answer !== undefined; answer = this.#waiting.shift()) {
      const taken = this.#deliverOne(answer)
      if (taken === undefined) continue
      const goOn = () => {
        this.#isDelivering = false
        this.#deliver()
      }
      void taken.then(goOn, (error: unknown) => {
        this.#fail(error)
        goOn()
      })
      return
    }
    this.#isDelivering = false
    for (const listener of this.#onReady) listener()
    if (this.#hasEnded) this.#tellEnd()
  }

  #deliverOne({ errors, text }: Answer): Promise<void> | undefined {
    if (this.#isOver) return undefined
    try {
      if (errors.length > 0) throw failureOfErrors(errors.map(this.#maskError))
      const { data } = JSON.parse(text) as ExecutionResult
      return (data == null ? undefined : this.#to.onEvent(data)) ?? undefined
    } catch (error) {
      this.#fail(error)
      return undefined
    }
  }

  /** Ends the subscription because an event could not be handled, and drops later events. */
  #fail(error: unknown): void {
    this.#waiting = []
    this.#finish(error)
  }

  /** Ends the subscription after the waiting events have been delivered. */
  #finish(error: unknown): void {
    if (this.#hasEnded) return
    this.#hasEnded = true
    this.#failure = error === null ? null : failureOf(error, this.#maskError)
    // RATE_LIMITED means that the follower is too slow, so the waiting events are dropped. The follower must resume
    // after the last event that it received.
    if (this.#failure?.code === 'RATE_LIMITED') this.#waiting = []
    if (!this.#isDelivering) this.#tellEnd()
  }

  #tellEnd(): void {
    if (this.#isOver) return
    this.end()
    this.#to.onEnd(this.#failure)
  }

  end(): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#waiting = []
    this.#signal.removeEventListener('abort', this.#onAbort)
    // `return` also ends an iteration that is waiting for an event.
    void Promise.resolve(this.#iteration?.return?.()).catch(() => {})
  }
}

/** Counts the result of an operation as in flight until the endpoint has received it or the client has disconnected. */
function createSending(response: ServerResponse): Sending & { release(): void } {
  let listeners: (() => void)[] = []
  let isOver = response.closed
  const release = () => {
    isOver = true
    response.off('close', release)
    for (const listener of listeners.splice(0)) listener()
  }
  if (!isOver) response.once('close', release)
  return {
    release,
    onSent(listener) {
      if (isOver) listener()
      else listeners = [...listeners, listener]
    },
    waitingBytes: () => response.writableLength,
    cutOff: () => void response.destroy(),
  }
}

const CODE_OF: Readonly<Record<string, DoorErrorCode>> = {
  UNAUTHENTICATED: 'UNAUTHENTICATED',
  FORBIDDEN: 'FORBIDDEN',
  NOT_FOUND: 'NOT_FOUND',
  BAD_USER_INPUT: 'BAD_INPUT',
  QUERY_TOO_COMPLEX: 'BAD_INPUT',
  RATE_LIMITED: 'RATE_LIMITED',
}

function failureOfErrors(errors: readonly GraphQLError[]): DoorError {
  const [first] = errors
  const { code = '', retryAfterMs, field } = (first?.extensions ?? {}) as Record<string, unknown> & { code?: string }
  const own = CODE_OF[code] ?? 'INTERNAL_SERVER_ERROR'
  return new DoorError(own, first?.message ?? 'The operation failed.', {
    retryAfterMs: typeof retryAfterMs === 'number' ? retryAfterMs : null,
    field: typeof field === 'string' ? field : null,
  })
}

/** Converts any thrown value into a failure for clients. Errors that no client caused are logged and masked. */
export function failureOf(error: unknown, maskError: MaskError): DoorError {
  if (error instanceof DoorError) return error
  if (error instanceof DomainError) return doorErrorOf(error)
  if (error instanceof BodyRefusedError && error.status === 503)
    return failureOf(new RateLimitedError(error.message, 5000), maskError)
  if (error instanceof BodyRefusedError) return new DoorError('BAD_INPUT', error.message, { status: error.status })
  return failureOfErrors(errorsOf(error, maskError))
}
