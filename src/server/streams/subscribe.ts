import { createSourceEventStream, type ExecutionArgs, type ExecutionResult, getOperationAST, Kind } from 'graphql'
import { Repeater } from 'graphql-yoga'
import type { Viewer } from '../../access/viewer.ts'
import { createTurns, type Turns } from '../../lib/turns.ts'
import type { Context } from '../../schema/context.ts'
import type { Domain } from '../../schema/domain.ts'
import type { Streams } from '../../schema/streams.ts'
import type { MaskError } from '../http/masking.ts'
import { type Answer, identityOf, isPersonal, type Outcome } from './answer.ts'
import { answerKey } from './answer-key.ts'
import { type Answers, createAnswers, isTold, moment } from './answers.ts'
import type { Feed, Receiver, Told } from './feed.ts'
import type { OwnLifeline } from './lifeline.ts'
import type { LiveGroups } from './live-groups.ts'
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
}

export type Subscribe = (args: ExecutionArgs) => Promise<ExecutionResult | AsyncIterable<ExecutionResult>>

/** Of those who are behind: each of them writes out up to 250 events. */
const GOING_ON_A_ROUND = 16

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
    const source = (await createSourceEventStream(args)) as Feed<object> | ExecutionResult
    if (!('deliver' in source)) return source
    const { viewer, sink, onBegun } = args.contextValue as Context & SinkContext
    const { answers, leave } = join(args, viewer, source.shownIn)
    source.lifeline.onEnd(leave)
    try {
      source.lifeline.onEnd(subscriptionLimits.take(viewer, { topic: source.shownIn, answers, ...askedBy(args) }))
    } catch (error) {
      source.lifeline.end()
      throw error
    }
    const begin = (to: Sink) => deliver(source, { answers, viewer, sink: to, turns, live: parts.live })
    if (sink === undefined) return resultsOf(source, begin, parts.maskError)
    onBegun?.(silence(source, () => begin(sink)))
    return {}
  }
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

interface Subscriber extends Pick<SubscribeParts, 'live'> {
  /** Of those who are behind: before they go on, and once something was looked up for which all may have waited. */
  turns: Turns
  answers: Answers
  viewer: Viewer
  sink: Sink
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

function receiverOf(
  { lifeline: { signal } }: Feed<object>,
  { answers, viewer, sink, live, turns }: Subscriber,
): Receiver<object> {
  /** What it has been told is at most as new as this; what it knows from elsewhere is older than its beginning. */
  let known = moment()
  const viewers = () => [viewer]
  const isThere = () => !signal.aborted

  async function ownAnswer(told: Told<object>): Promise<Answer> {
    const found = answers.answer(told, viewers, known)
    const answer = found instanceof Promise ? await inTurn(found, turns) : found
    const own = isPersonal(answer) ? answer.get(identityOf(viewer)) : answer
    // It failed, where others' did not.
    if (own === undefined) return ownAnswer({ ...told, of: null })
    if (own instanceof Error) throw own
    known = Math.max(known, own.asOf.to)
    return own
  }

  async function tell(told: readonly Told<object>[]): Promise<void> {
    await turns.next()
    const given: Answer[] = []
    const send = () => {
      if (isThere() && given.length > 0) sink.send(given.splice(0))
    }
    try {
      for (const one of told) {
        if (!isThere()) return
        const own = await ownAnswer(one)
        if (isTold(own)) given.push(own)
        const paced = answers.pace(own, viewers, isThere)
        if (paced === undefined) continue
        send()
        await paced
      }
    } finally {
      send()
    }
    await ready(sink, signal)
  }
  return {
    tell,
    async sit(window, seat, until, rules) {
      known = await live.sit({ answers, viewer, sink, window, seat, rules, known }, until)
    },
  }
}

/** What was looked up, once there is room to tell it. */
async function inTurn(outcome: Promise<Outcome>, turns: Turns): Promise<Outcome> {
  const settled = await outcome
  await turns.next()
  return settled
}

/** Resolves once the sink takes more, or the signal aborts. */
function ready(sink: Sink, signal: AbortSignal): Promise<void> | void {
  if (!sink.isBusy() || signal.aborted) return
  return new Promise((resolve) => {
    const done = () => {
      stop()
      signal.removeEventListener('abort', done)
      resolve()
    }
    const stop = sink.whenReady(done)
    signal.addEventListener('abort', done)
  })
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
    const { sink, emptied } = createQueue(push)
    try {
      await begin(sink)
      await emptied()
    } catch (error) {
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
  return { sink, emptied: async () => giving }
}
