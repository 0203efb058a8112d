import { createSourceEventStream, type ExecutionArgs, type ExecutionResult, getOperationAST, Kind } from 'graphql'
import { Repeater } from 'graphql-yoga'
import type { Viewer } from '../../access/viewer.ts'
import { RateLimitedError } from '../../lib/errors.ts'
import { createTurns } from '../../lib/turns.ts'
import type { Context } from '../../schema/context.ts'
import type { Domain } from '../../schema/domain.ts'
import type { Streams } from '../../schema/streams.ts'
import type { MaskError } from '../http/masking.ts'
import type { Answer } from './answer.ts'
import { answerKey } from './answer-key.ts'
import { type Answers, createAnswers } from './answers.ts'
import type { Feed } from './feed.ts'
import type { OwnLifeline } from './lifeline.ts'
import type { LiveGroups } from './live-groups.ts'
import type { Pace, Paces } from './pace.ts'
import { receiverOf, type Subscriber } from './receiver.ts'
import type { Sink } from './sink.ts'
import { createSubscriptionLimits } from './subscription-limits.ts'

/** What a transport adds to an operation's context, where it takes the answers as they go over the wire. */
export interface SinkContext {
  sink?: Sink
  /** Is given the iteration, which the pipeline would wrap in others, with all that came with the operation. */
  onBegun?(iteration: AsyncIterable<never>): void
}

export interface SubscribeParts {
  domain: Domain
  streams: Streams
  maskError: MaskError
  live: LiveGroups
  /** Over sockets, event streams and multipart together. */
  maxSubscriptionsPerViewer: number
  /** Bytes that one event may have. */
  maxResponseBytes: number
  paces: Paces
}

export type Subscribe = (args: ExecutionArgs) => Promise<ExecutionResult | AsyncIterable<ExecutionResult>>

/** Of those who are behind: each of them writes out up to 250 events. */
const GOING_ON_A_ROUND = 16
/** How long a client that does not read has to read on and learn why its subscription ended, before its connection is cut off. */
const LAST_WORDS_MS = 30_000
const LEAST_RETRY_MS = 1000

/**
 * The one way in which subscriptions are delivered: guards stand, the events are followed, each is answered once for all who
 * ask the same, and the answers go to a sink. Where the transport has none of its own, an iteration comes back that gives them;
 * otherwise `onBegun` is given one that gives nothing, and lasts as long as the subscription.
 */
export function createSubscribe(parts: SubscribeParts): Subscribe {
  const join = createRegistry(parts)
  const subscriptionLimits = createSubscriptionLimits(parts.maxSubscriptionsPerViewer)
  const turns = createTurns({ few: GOING_ON_A_ROUND })

  return async (args) => {
    const context = args.contextValue as Context & SinkContext
    const { viewer, sink, onBegun, onSlow: cutOff } = context
    let onTooSlow = () => {}
    context.onSlow = () => onTooSlow()
    const source = (await createSourceEventStream(args)) as Feed<object> | ExecutionResult
    if (!('deliver' in source)) return source
    const { answers, leave } = join(args, viewer, source.shownIn)
    source.lifeline.onEnd(leave)
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
      return deliver(source, { answers, viewer, sink: to, pace, turns, live: parts.live, onTooSlow })
    }
    if (sink === undefined) return resultsOf(source, begin, parts.maskError)
    onBegun?.(silence(source, () => begin(sink)))
    return {}
  }
}

/**
 * Ends the subscription of one who cannot keep up, or is too far past its pace: a socket by a close code that clients retry, anything else by an
 * error, for which a client that does not read has some time.
 */
function endSlow({ lifeline }: Feed<object>, to: { sink: Sink; pace: Pace; cutOff(): void }): void {
  const { sink, pace, cutOff } = to
  if (lifeline.signal.aborted) return
  sink.giveUp?.()
  if (sink.giveUp === undefined) setTimeout(() => sink.isBusy() && cutOff(), LAST_WORDS_MS).unref()
  const retryAfterMs = Math.max(LEAST_RETRY_MS, pace.retryAfterMs())
  lifeline.fail(
    new RateLimitedError(
      'Too many events are waiting for this subscription. Subscribe again after the last cursor.',
      retryAfterMs,
    ),
  )
}

function askedBy({ document, operationName, contextValue }: ExecutionArgs) {
  const [root] = getOperationAST(document, operationName)?.selectionSet.selections ?? []
  const { weight = 0 } = contextValue as Context
  return { weight, isOfViewer: root?.kind === Kind.FIELD && root.name.value === 'viewerEvents' }
}

/** The answers of operations that somebody subscribes by, by what they have in common. */
function createRegistry({ domain, streams, maskError, maxResponseBytes }: SubscribeParts) {
  const known = new Map<string, { answers: Answers; users: number }>()
  return (
    { schema, document, operationName, variableValues, contextValue }: ExecutionArgs,
    viewer: Viewer,
    shownIn: string | null,
  ) => {
    const key = answerKey(document, operationName, viewer, variableValues)
    const { takesCursors } = contextValue as Context
    const operation = { schema, document, operationName, variableValues }
    const entry = known.get(key) ?? {
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
    known.set(key, entry)
    entry.users += 1
    const leave = () => {
      entry.users -= 1
      if (entry.users === 0) known.delete(key)
    }
    return { answers: entry.answers, leave }
  }
}

/** Delivers a feed until it is over. @throws what ended it. */
async function deliver(feed: Feed<object>, subscriber: Subscriber): Promise<void> {
  const { lifeline } = feed
  try {
    await feed.deliver(receiverOf(feed, subscriber))
  } catch (error) {
    lifeline.fail(error as Error)
  }
  lifeline.end()
  const failure = lifeline.failure()
  if (failure !== null) throw failure
}

function silence({ lifeline }: Feed<object>, begin: () => Promise<void>): AsyncIterable<never> {
  const iteration = new Repeater<never>(async (_, stop) => {
    await begin()
    stop()
  })
  return endedBy(iteration, lifeline)
}

/** Whoever returns an iteration, also before it has begun, ends what stands behind it. */
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

/** The answers one by one; what ends them is the last one. */
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

/** A sink that gives one answer after the other, each when it is asked for. */
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
