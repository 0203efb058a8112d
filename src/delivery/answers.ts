import { type ExecutionArgs, execute, type GraphQLError } from 'graphql'
import type { Viewer } from '../access/viewer.ts'
import { type BoundedResult, executeBounded } from '../graphql/bounded-execution.ts'
import { createContext } from '../graphql/context.ts'
import type { Domain } from '../graphql/domain.ts'
import { type CommonLoaders, createCommonLoaders } from '../graphql/loaders.ts'
import { formatError, type MaskError } from '../graphql/masking.ts'
import type { Streams } from '../graphql/streams.ts'
import { sleep } from '../lib/async.ts'
import { GoneError, HiddenError } from '../lib/errors.ts'
import { forRequester } from '../lib/requester-context.ts'
import {
  type Answer,
  type EventAnswer,
  identityOf,
  isPersonal,
  type PersonalAnswers,
  type VersionSpan,
} from './answer.ts'
import { createAnswerCache, createBatching, type MaybePromise } from './answer-cache.ts'
import type { Delivery } from './feed.ts'
import { createPlainAnswer } from './plain-answers.ts'
import { probeOf } from './viewer-probe.ts'

/** Creates the answers to the events of one operation, for all subscribers with the same scope and variables. */
export interface Answers {
  /**
   * Executes the operation once on an event, and caches the answer until the window drops the publication. If only
   * the event's own fields are selected, nothing is executed (see plain-answers.ts). If the answer depends on the
   * viewer, the operation is executed for each of `viewers`, with batched lookups. Data read before version
   * `minVersion` is read again, so that no subscriber receives older data than it already has.
   * @throws an error after several failed retries. The error ends every subscription of this operation, because no
   * event may be skipped.
   */
  answer(delivery: Delivery<object>, viewers: () => Iterable<Viewer>, minVersion: number): MaybePromise<EventAnswer>
}

export interface AnswersParts {
  /** The operation, which is the same for all subscribers. */
  operation: Pick<ExecutionArgs, 'schema' | 'document' | 'operationName' | 'variableValues'>
  /** Any viewer who subscribed with this operation. */
  anyViewer: Viewer
  domain: Domain
  streams: Streams
  takesCursors: boolean
  /** See `Feed.shownIn`. */
  shownIn: string | null
  maskError: MaskError
  /** The maximum size of the answer to one event. */
  maxResponseBytes: number
}

/**
 * If an execution fails, the operation is executed again on the event after these pauses, because the database may
 * have been unreachable for a moment.
 */
const RETRIES_AFTER_MS = [100, 500]
/**
 * If the database is too busy, the operation is executed again on the event after these pauses. After 30 s in
 * total, the subscriptions end and clients must resume.
 */
const RETRIES_OF_BUSY_AFTER_MS = [100, 500, 1500, 3000, 5000, 8000, 12_000]
/** The maximum number of concurrent executions per event. */
const VIEWERS_AT_ONCE = 512
/**
 * The maximum size in characters of the per-viewer answers that one execution creates for an event. For each
 * remaining viewer, the server executes the operation separately.
 */
const MOST_PERSONAL_CHARACTERS = 16 * 1024 * 1024
const NO_ERRORS: readonly GraphQLError[] = []
/** The maximum path length of an error about the subscription field, or about the entity that an event refers to. */
const PATH_TO_SUBJECT = 2
const ANY_VERSION: VersionSpan = { from: Number.POSITIVE_INFINITY, to: 0 }

let version = 0

/** Returns the next version of the logical clock. */
export function nextVersion(): number {
  version += 1
  return version
}

export function createAnswers(parts: AnswersParts): Answers {
  const { anyViewer, maskError } = parts
  const cache = createAnswerCache()
  const plainAnswer = createPlainAnswer(parts.operation, parts.maxResponseBytes)

  async function answerEach(
    event: object,
    viewers: Iterable<Viewer>,
    common: () => CommonLoaders,
  ): Promise<PersonalAnswers> {
    const answers = new Map<string, Answer | Error>()
    const distinct = [...new Map(Array.from(viewers, (viewer) => [identityOf(viewer), viewer]))]
    let characters = 0
    for (let from = 0; from < distinct.length && characters < MOST_PERSONAL_CHARACTERS; from += VIEWERS_AT_ONCE) {
      const some = distinct.slice(from, from + VIEWERS_AT_ONCE)
      const began = nextVersion()
      const results = await Promise.all(some.map(([, viewer]) => run(parts, event, viewer, common)))
      for (const [index, [identity]] of some.entries()) {
        if (characters >= MOST_PERSONAL_CHARACTERS) break
        const answer = answerOf(results[index]!, { from: began, to: nextVersion() }, maskError)
        answers.set(identity, hasFailed(answer) ? failureOf(answer) : answer)
        characters += answer.text.length
      }
    }
    return answers
  }

  function executeForAll(event: object, viewers: readonly Viewer[]): MaybePromise<EventAnswer> {
    return forRequester(requesterOf(viewers, parts.shownIn), () => executeShared(event, viewers))
  }

  function executeShared(event: object, viewers: readonly Viewer[]): MaybePromise<EventAnswer> {
    let loaders: CommonLoaders | null = null
    const common = () => (loaders ??= createCommonLoaders(parts))
    let personal: Promise<PersonalAnswers> | null = null
    // The probe calls this function at its first read, so that the lookups for all viewers join its batch.
    const probe = probeOf(anyViewer, () => {
      personal = answerEach(event, viewers, common)
    })
    const began = nextVersion()
    const result = run(parts, event, probe, common)
    if (!(result instanceof Promise)) return personal ?? answerOf(result, ANY_VERSION, maskError)
    return result.then<EventAnswer>(
      (settled) => personal ?? answerOf(settled, { from: began, to: nextVersion() }, maskError),
    )
  }

  async function retry(event: object, viewers: readonly Viewer[], first: EventAnswer): Promise<EventAnswer> {
    let result = first
    for (const [index, afterMs] of RETRIES_OF_BUSY_AFTER_MS.entries()) {
      if (!isTransient(result) || (index >= RETRIES_AFTER_MS.length && !isBusy(result))) break
      await sleep(afterMs)
      result = await executeForAll(event, viewers)
    }
    if (!isPersonal(result) && hasFailed(result)) throw failureOf(result)
    return result
  }

  /**
   * Executes the operation on an event for the current viewers. A viewer who subscribes during the execution gets a
   * separate answer, because this viewer may already have newer data.
   */
  function executeAndCache(
    { event, shareKey }: Delivery<object>,
    requesters: Iterable<Viewer>,
  ): MaybePromise<EventAnswer> {
    const viewers = [...requesters]
    const checked = (result: EventAnswer) =>
      isComplete(result) ? result : (successesOf(result) ?? retry(event, viewers, result))
    const first = executeForAll(event, viewers)
    const result = first instanceof Promise ? first.then(checked) : checked(first)
    if (shareKey !== null) cache.keep(shareKey, result)
    return result
  }

  const executeTogether = createBatching(executeAndCache)

  /**
   * Waits for an execution in progress, and uses its answer if the execution began late enough for this subscriber.
   * If answers differ per viewer, executes the operation once more for all waiting viewers together. As a result,
   * many subscribers that reconnect cost only a few statements.
   */
  async function answerAfter(
    other: Promise<EventAnswer>,
    ...request: Parameters<Answers['answer']>
  ): Promise<EventAnswer> {
    const [delivery, viewers, minVersion] = request
    const result = await other
    if (isPersonal(result)) return executeTogether(delivery, viewers())
    return result.versions.from >= minVersion ? result : answer(...request)
  }

  const answer: Answers['answer'] = (delivery, viewers, minVersion) => {
    const text = plainAnswer(delivery.event)
    // Plain answers are not cached, because composing one again is cheaper.
    if (text !== null) return { text, errors: NO_ERRORS, hasData: true, versions: ANY_VERSION }
    const cached = delivery.shareKey === null ? undefined : cache.get(delivery.shareKey)
    if (cached instanceof Promise) return answerAfter(cached, delivery, viewers, minVersion)
    return cached !== undefined && cached.versions.from >= minVersion ? cached : executeAndCache(delivery, viewers())
  }

  return { answer }
}

/**
 * Returns the requester to which an event's lookups are charged. This is the viewer if there is only one, and
 * otherwise all viewers of the space together.
 */
function requesterOf(viewers: readonly Viewer[], shownIn: string | null): string {
  const [first] = viewers
  const isAlone = first !== undefined && viewers.every(({ id }) => id === first.id)
  return isAlone ? first.id : `events:${shownIn ?? ''}`
}

const onSlow = () => {}

function run(
  parts: AnswersParts,
  rootValue: object,
  viewer: Viewer,
  common: () => CommonLoaders,
): MaybePromise<BoundedResult> {
  const { operation, domain, streams, takesCursors, shownIn, maxResponseBytes } = parts
  const context = createContext({ domain, streams, viewer, takesCursors, onSlow, common, shownIn })
  return executeBounded(
    (contextValue, fieldResolver) => execute({ ...operation, rootValue, contextValue, fieldResolver }),
    context,
    maxResponseBytes,
  )
}

function answerOf({ result, discardedBytes }: BoundedResult, versions: VersionSpan, maskError: MaskError): Answer {
  const hasData = result.data != null
  if (result.errors === undefined)
    return { text: JSON.stringify(result), errors: NO_ERRORS, hasData, versions, discardedBytes }
  // These errors are not logged. They are expected, because the event's subject was deleted or is hidden from this
  // viewer.
  if (result.errors.every(isUndeliverable)) return { text: EMPTY, errors: NO_ERRORS, hasData, versions, discardedBytes }
  const errors = result.errors.map(maskError)
  const text = JSON.stringify({ ...result, errors: errors.map(formatError) })
  // If the data of an event is too large, an error is delivered instead, and the subscription continues.
  return { text, errors, hasData: hasData || errors.some(isTooComplex), versions, discardedBytes }
}

const isTooComplex = ({ extensions }: GraphQLError) => extensions['code'] === 'QUERY_TOO_COMPLEX'

/**
 * Whether the error is about the event's own subject, which was deleted or is hidden. False for an error about an
 * object nested in the selection.
 */
const isUndeliverable = ({ originalError, path = [] }: GraphQLError) =>
  (originalError instanceof GoneError || originalError instanceof HiddenError) && path.length <= PATH_TO_SUBJECT

/** The text of an event that is not delivered, because its subject was deleted or is hidden. */
const EMPTY = ''

/** Whether the answer is to be sent to the subscriber. */
export const isDeliverable = ({ text }: Answer) => text !== EMPTY

/** Whether the answer should be delivered but has no data. */
const hasFailed = (answer: Answer) => !answer.hasData && isDeliverable(answer)

/** Returns the error that ends the subscriptions of the answer's recipients. */
function failureOf({ errors }: Answer): Error {
  return errors[0] ?? new Error('the operation returned neither data nor errors for an event')
}

const isComplete = (result: EventAnswer) => !isTransient(result) && (isPersonal(result) || !hasFailed(result))

/**
 * Returns the per-viewer answers that did not fail; null if there are none. For the other viewers, the operation is
 * executed again.
 */
function successesOf(result: EventAnswer): PersonalAnswers | null {
  if (!isPersonal(result)) return null
  const whole = new Map(
    [...result].filter(([, one]) => !(one instanceof Error ? isTransientError(one) : isTransient(one))),
  )
  return whole.size > 0 ? whole : null
}

/**
 * Whether the result has an error that a retry might resolve: an internal error, an overload, or a deletion between
 * two lookups.
 */
const isTransient = (result: EventAnswer) => hasError(result, isTransientError)

/** Whether an execution failed because the database was too busy. */
const isBusy = (result: EventAnswer) => hasError(result, isOverloadOfEvent)

function hasError(result: EventAnswer, isIt: (error: Error) => boolean): boolean {
  if (isPersonal(result))
    return [...result.values()].some((one) => (one instanceof Error ? isIt(one) : hasError(one, isIt)))
  return isDeliverable(result) && result.errors.some(isIt)
}

const TRANSIENT_CODES: ReadonlySet<unknown> = new Set(['INTERNAL_SERVER_ERROR', 'NOT_FOUND', 'RATE_LIMITED'])

const codeOf = (error: Error) => (error as { extensions?: { code?: unknown } }).extensions?.code

const isTransientError = (error: Error) => TRANSIENT_CODES.has(codeOf(error))

/** Whether the operation was not executed because the database was too busy. */
export const isOverloadOfEvent = (error: unknown) => error instanceof Error && codeOf(error) === 'RATE_LIMITED'
