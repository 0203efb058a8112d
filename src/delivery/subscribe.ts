// Executes `subscription` operations for every transport: opens the feed and delivers it to the transport's sink.
import { createSourceEventStream, type ExecutionArgs, type ExecutionResult, getOperationAST, Kind } from 'graphql'
import { Repeater } from 'graphql-yoga'
import type { Viewer } from '../access/viewer.ts'
import type { Context } from '../graphql/context.ts'
import type { Domain } from '../graphql/domain.ts'
import type { MaskError } from '../graphql/masking.ts'
import type { Streams } from '../graphql/streams.ts'
import { RateLimitedError } from '../lib/errors.ts'
import { createTurns } from '../lib/turns.ts'
import type { Answer, Sink } from './answer.ts'
import { answerKey } from './answer-key.ts'
import { type Answers, createAnswers, isOverloadOfEvent } from './answers.ts'
import type { Pace, Paces } from './backpressure.ts'
import type { Feed, OwnLifeline } from './feed.ts'
import type { Hub } from './hub.ts'
import { createSubscriber, type SubscriberParts } from './subscriber.ts'
import { createSubscriptionLimits } from './subscription-limits.ts'

/** Fields that a transport adds to an operation's context if it writes serialized answers itself. */
export interface SinkContext {
  sink?: Sink
  /** Receives the iteration. The iteration is not returned, because Yoga's pipeline would wrap it. */
  onBegun?(iteration: AsyncIterable<never>): void
  /** Called when the subscription has ended or could not begin. */
  onEnd?(): void
}

export interface SubscribeParts {
  domain: Domain
  streams: Streams
  /** Masks errors. Errors caused by an unavailable database get the code RATE_LIMITED. */
  maskError: MaskError
  /** Whether an error occurred because the database is too busy or does not respond. */
  isUnavailable(error: unknown): boolean
  hub: Hub
  /** The maximum number of subscriptions of a viewer over all transports: sockets, event streams and multipart. */
  maxSubscriptionsPerViewer: number
  /** The maximum size of the answer to one event. */
  maxResponseBytes: number
  paces: Paces
}

export type Subscribe = (args: ExecutionArgs) => Promise<ExecutionResult | AsyncIterable<ExecutionResult>>

/**
 * The number of lagging subscribers that are served in one turn of the event loop. Each of them may get up to 250
 * events.
 */
const GOING_ON_A_ROUND = 16
/**
 * How long a client may take to read the error that ended its subscription. If the client takes longer, its
 * connection is closed.
 */
const LAST_ERROR_MS = 30_000
const LEAST_RETRY_MS = 1000

/**
 * Creates the only delivery path for subscriptions. It activates the guards and follows the feed. It executes the
 * operation once per event for all subscribers with the same answer key, and sends the answers to the transport's
 * sink. A transport without a sink gets an iteration of the answers. A transport with a sink gets, through
 * `onBegun`, an iteration that yields nothing and ends with the subscription.
 */
export function createSubscribe(parts: SubscribeParts): Subscribe {
  const join = createRegistry(parts)
  const subscriptionLimits = createSubscriptionLimits(parts.maxSubscriptionsPerViewer)
  const turns = createTurns({ few: GOING_ON_A_ROUND })

  return async (args) => {
    const context = args.contextValue as Context & SinkContext
    const { viewer, sink, onBegun, onSlow: cutOff, onEnd = () => {} } = context
    let onTooSlow = () => {}
    context.onSlow = () => onTooSlow()
    const source = (await createSourceEventStream(args)) as Feed<object> | ExecutionResult
    if (!('deliverTo' in source)) {
      onEnd()
      return source
    }
    source.lifeline.onEnd(onEnd)
    const { answers, leave } = join(args, viewer, source.shownIn)
    source.lifeline.onEnd(leave)
    source.lifeline.onEnd(parts.domain.presence.connect(viewer))
    try {
      source.lifeline.onEnd(subscriptionLimits.take(viewer, { topic: source.shownIn, answers, ...askedBy(args) }))
    } catch (error) {
      source.lifeline.end()
      throw error
    }
    const { pace, leave: leavePace } = parts.paces.join(viewer.id)
    source.lifeline.onEnd(leavePace)
    const begin = (to: Sink) => {
      onTooSlow = () => endSlow(source, { sink: to, pace, cutOff })
      const subscriber = { answers, viewer, sink: to, pace, turns, hub: parts.hub, onTooSlow }
      return deliver(source, subscriber, parts.isUnavailable)
    }
    if (sink === undefined) return resultsOf(source, begin, parts.maskError)
    onBegun?.(silence(source, () => begin(sink)))
    return {}
  }
}

/**
 * Ends the subscription of a client that cannot keep up or that far exceeds its pace. A socket is closed with a
 * code after which clients reconnect. Any other transport sends an error, and the client has some time to read it.
 */
function endSlow({ lifeline }: Feed<object>, to: { sink: Sink; pace: Pace; cutOff(): void }): void {
  const { sink, pace, cutOff } = to
  if (lifeline.signal.aborted) return
  sink.giveUp?.()
  if (sink.giveUp === undefined) setTimeout(() => sink.isBusy() && cutOff(), LAST_ERROR_MS).unref()
  const retryAfterMs = Math.max(LEAST_RETRY_MS, pace.retryAfterMs())
  lifeline.fail(
    new RateLimitedError(
      'Too many events are waiting for this subscription. Subscribe again, with the last cursor as `after`.',
      retryAfterMs,
    ),
  )
}

function askedBy({ document, operationName, contextValue }: ExecutionArgs) {
  const [root] = getOperationAST(document, operationName)?.selectionSet.selections ?? []
  const { weight = 0 } = contextValue as Context
  return { weight, isOfViewer: root?.kind === Kind.FIELD && root.name.value === 'viewerEvents' }
}

/** Lets active subscriptions with the same answer key share their `Answers`. */
function createRegistry({ domain, streams, maskError, maxResponseBytes }: SubscribeParts) {
  const active = new Map<string, { answers: Answers; users: number }>()
  return (
    { schema, document, operationName, variableValues, contextValue }: ExecutionArgs,
    viewer: Viewer,
    shownIn: string | null,
  ) => {
    const key = answerKey(document, operationName, viewer, variableValues)
    const { takesCursors } = contextValue as Context
    const operation = { schema, document, operationName, variableValues }
    const entry = active.get(key) ?? {
      answers: createAnswers({
        operation,
        anyViewer: viewer,
        domain,
        streams,
        takesCursors,
        shownIn,
        maskError,
        maxResponseBytes,
      }),
      users: 0,
    }
    active.set(key, entry)
    entry.users += 1
    const leave = () => {
      entry.users -= 1
      if (entry.users === 0) active.delete(key)
    }
    return { answers: entry.answers, leave }
  }
}

/** Delivers a feed until it ends. @throws the error that ended it */
async function deliver(
  feed: Feed<object>,
  subscriber: SubscriberParts,
  isUnavailable: SubscribeParts['isUnavailable'],
): Promise<void> {
  const { lifeline } = feed
  try {
    await feed.deliverTo(createSubscriber(feed, subscriber))
  } catch (error) {
    // The client can resume after its last cursor when the database is available again.
    if (isOverloadOfEvent(error) || isUnavailable(error)) subscriber.onTooSlow()
    else lifeline.fail(error as Error)
  }
  lifeline.end()
  const failure = lifeline.failure()
  if (failure !== null) throw failure
}

/**
 * Returns an iteration that yields nothing, and ends with the subscription. It is written by hand, because the many
 * promises of a Repeater would account for a tenth of the memory of an idle subscription.
 */
function silence({ lifeline }: Feed<object>, begin: () => Promise<void>): AsyncIterable<never> {
  let over: Promise<IteratorReturnResult<undefined>> | null = null
  const iteration: AsyncIterableIterator<never> = {
    [Symbol.asyncIterator]: () => iteration,
    next() {
      over ??= begin().then(() => DONE)
      return over
    },
    async return() {
      lifeline.end()
      await over?.catch(() => {})
      over = Promise.resolve(DONE)
      return DONE
    },
  }
  return iteration
}

const DONE = { done: true, value: undefined } as const

/** Wraps an iteration so that its `return()` ends the subscription, even before the first `next()`. */
function endedBy<T>(iteration: Repeater<T>, lifeline: OwnLifeline): AsyncIterableIterator<T> {
  const outer: AsyncIterableIterator<T> = {
    [Symbol.asyncIterator]: () => outer,
    next: () => iteration.next(),
    return(value) {
      lifeline.end()
      return iteration.return(value)
    },
  }
  return outer
}

/** Yields the answers one by one, and finally the error that ended the subscription. */
function resultsOf(
  { lifeline }: Feed<object>,
  begin: (sink: Sink) => Promise<void>,
  maskError: MaskError,
): AsyncIterable<ExecutionResult> {
  const iteration = new Repeater<ExecutionResult>(async (push, stop) => {
    const { sink, drop, emptied } = createQueue(push)
    try {
      await begin(sink)
      await emptied()
    } catch (error) {
      if (error instanceof RateLimitedError) drop()
      await emptied()
      await push({ errors: [maskError(error)] })
    }
    stop()
  })
  return endedBy(iteration, lifeline)
}

/** Creates a sink that passes on one answer at a time, when the consumer asks for the next one. */
function createQueue(push: (result: ExecutionResult) => Promise<unknown>) {
  const waiting: Answer[] = []
  const listeners = new Set<() => void>()
  let giving: Promise<void> | null = null

  async function give(): Promise<void> {
    for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
      const { errors, text } = next
      await push(Object.assign(errors.length > 0 ? { errors } : {}, { stringify: () => text }))
    }
    giving = null
    for (const listener of [...listeners]) listener()
  }
  const sink: Sink = {
    send(answers) {
      waiting.push(...answers)
      giving ??= give()
    },
    isBusy: () => giving !== null,
    whenReady(listener) {
      listeners.add(listener)
      return () => void listeners.delete(listener)
    },
  }
  return { sink, drop: () => void waiting.splice(0), emptied: async () => giving }
}
