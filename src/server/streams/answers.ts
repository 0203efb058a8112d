import { type ExecutionArgs, execute, type GraphQLError } from 'graphql'
import { LRUCache } from 'lru-cache'
import type { Viewer } from '../../access/viewer.ts'
import { sleep } from '../../lib/async.ts'
import { GoneError, HiddenError } from '../../lib/errors.ts'
import { createContext } from '../../schema/context.ts'
import type { Domain } from '../../schema/domain.ts'
import { type CommonLoaders, createCommonLoaders } from '../../schema/loaders.ts'
import type { Streams } from '../../schema/streams.ts'
import { type BoundedResult, executeBounded } from '../bounded-execution.ts'
import { formatError, type MaskError } from '../http/masking.ts'
import { type Answer, identityOf, isPersonal, type Outcome, type PersonalAnswers, type Span } from './answer.ts'
import type { Told } from './feed.ts'
import { createPlainAnswer } from './plain-answers.ts'
import { probeOf } from './viewer-probe.ts'

/** Answers the events of one operation for all subscribers with the same scope and variables. */
export interface Answers {
  /**
   * Executes an event once and caches its answer as long as its log entry is held. An event whose own fields suffice is
   * not even executed (plain-answers.ts). If the answer depends on the viewer, the event is executed for each of
   * `viewers`, with batched lookups. Data read before version `since` is read again, so that no subscriber receives
   * data older than what it has.
   * @throws the error that ends every subscription, after some retries: an event is never skipped
   */
  answer(told: Told<object>, viewers: () => Iterable<Viewer>, since: number): MaybePromise<Outcome>
}

type MaybePromise<T> = T | Promise<T>

export interface AnswersParts {
  /** Shared by all subscribers. */
  operation: Pick<ExecutionArgs, 'schema' | 'document' | 'operationName' | 'variableValues'>
  /** Any viewer who subscribed with this operation. */
  anyViewer: Viewer
  domain: Domain
  streams: Streams
  takesCursors: boolean
  /** See Feed. */
  shownIn: string | null
  maskError: MaskError
  /** The maximum size of the answer to one event. */
  maxResponseBytes: number
}

/** Pauses before an event that failed is executed again: the database may be unreachable for a moment. */
const RETRIES_AFTER_MS = [100, 500]
/** The maximum number of concurrent executions of one event. */
const VIEWERS_AT_ONCE = 512
/** Over this size of the answers to one event, in characters, the remaining viewers are answered one by one. */
const MOST_PERSONAL_CHARACTERS = 16 * 1024 * 1024
/** The size of the cache of answers in this process, in characters. */
const MOST_KEPT_CHARACTERS = 16 * 1024 * 1024
const NO_ERRORS: readonly GraphQLError[] = []
/** The length of a path to the subscription field, or to the entity that its event names. */
const PATH_TO_SUBJECT = 2
const ANY_TIME: Span = { from: Number.POSITIVE_INFINITY, to: 0 }

let moments = 0

/** Returns the next version of the logical clock. */
export function moment(): number {
  moments += 1
  return moments
}

export function createAnswers(parts: AnswersParts): Answers {
  const { anyViewer, maskError } = parts
  const remembered = createMemory()
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
      const began = moment()
      const results = await Promise.all(some.map(([, viewer]) => run(parts, event, viewer, common)))
      for (const [index, [identity]] of some.entries()) {
        if (characters >= MOST_PERSONAL_CHARACTERS) break
        const answer = answerOf(results[index]!, { from: began, to: moment() }, maskError)
        answers.set(identity, isLost(answer) ? lossOf(answer) : answer)
        characters += answer.text.length
      }
    }
    return answers
  }

  function attempt(event: object, viewers: readonly Viewer[]): MaybePromise<Outcome> {
    let loaders: CommonLoaders | null = null
    const common = () => (loaders ??= createCommonLoaders(parts))
    let personal: Promise<PersonalAnswers> | null = null
    // The probe calls back at its first read, so that the lookups of all viewers join its batch.
    const probe = probeOf(anyViewer, () => {
      personal = answerEach(event, viewers, common)
    })
    const began = moment()
    const result = run(parts, event, probe, common)
    if (!(result instanceof Promise)) return personal ?? answerOf(result, ANY_TIME, maskError)
    return result.then<Outcome>((settled) => personal ?? answerOf(settled, { from: began, to: moment() }, maskError))
  }

  async function retry(event: object, viewers: readonly Viewer[], first: Outcome): Promise<Outcome> {
    let outcome = first
    for (const afterMs of RETRIES_AFTER_MS) {
      if (!mayPass(outcome)) break
      await sleep(afterMs)
      outcome = await attempt(event, viewers)
    }
    if (!isPersonal(outcome) && isLost(outcome)) throw lossOf(outcome)
    return outcome
  }

  /** A viewer who subscribes meanwhile may hold newer data, and is answered separately. */
  function begin({ event, of }: Told<object>, asking: Iterable<Viewer>): MaybePromise<Outcome> {
    const viewers = [...asking]
    const checked = (outcome: Outcome) =>
      isWhole(outcome) ? outcome : (wholeOnesOf(outcome) ?? retry(event, viewers, outcome))
    const first = attempt(event, viewers)
    const outcome = first instanceof Promise ? first.then(checked) : checked(first)
    if (of !== null) remembered.keep(of, outcome)
    return outcome
  }

  const beginTogether = createGathering(begin)

  /**
   * Waits for an execution in progress and uses its answer if it began late enough for this subscriber. If answers
   * differ per viewer, all waiting viewers are executed together next, and later ones wait for that; so many
   * subscribers that reconnect cost a few statements.
   */
  async function answerAfter(other: Promise<Outcome>, ...asked: Parameters<Answers['answer']>): Promise<Outcome> {
    const [told, viewers, since] = asked
    const outcome = await other
    if (isPersonal(outcome)) return beginTogether(told, viewers())
    return outcome.asOf.from >= since ? outcome : answer(...asked)
  }

  const answer: Answers['answer'] = (told, viewers, since) => {
    const text = plainAnswer(told.event)
    // Composing a plain answer again is cheaper than caching it.
    if (text !== null) return { text, errors: NO_ERRORS, hasData: true, asOf: ANY_TIME }
    const known = told.of === null ? undefined : remembered.get(told.of)
    if (known instanceof Promise) return answerAfter(known, told, viewers, since)
    return known !== undefined && known.asOf.from >= since ? known : begin(told, viewers())
  }

  return { answer }
}

/** Batches the requests for one event in one tick into a single execution. */
function createGathering(begin: (told: Told<object>, viewers: Iterable<Viewer>) => MaybePromise<Outcome>) {
  const gathered = new Map<Told<object>['of'], { viewers: Viewer[]; outcome: Promise<Outcome> }>()
  return (told: Told<object>, viewers: Iterable<Viewer>): Promise<Outcome> => {
    const known = gathered.get(told.of)
    if (known !== undefined) {
      known.viewers.push(...viewers)
      return known.outcome
    }
    const all = [...viewers]
    const outcome = Promise.resolve().then(() => {
      gathered.delete(told.of)
      return begin(told, all)
    })
    gathered.set(told.of, { viewers: all, outcome })
    return outcome
  }
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

function answerOf({ result, discardedBytes }: BoundedResult, asOf: Span, maskError: MaskError): Answer {
  const hasData = result.data != null
  if (result.errors === undefined)
    return { text: JSON.stringify(result), errors: NO_ERRORS, hasData, asOf, discardedBytes }
  // Not a fault to be logged: the event's subject was deleted, or is hidden from this viewer.
  if (result.errors.every(isUndeliverable)) return { text: UNTOLD, errors: NO_ERRORS, hasData, asOf, discardedBytes }
  const errors = result.errors.map(maskError)
  const text = JSON.stringify({ ...result, errors: errors.map(formatError) })
  // An event that is too large is delivered as its error, and does not end the subscription.
  return { text, errors, hasData: hasData || errors.some(isTooComplex), asOf, discardedBytes }
}

const isTooComplex = ({ extensions }: GraphQLError) => extensions['code'] === 'QUERY_TOO_COMPLEX'

/** Whether the event's own subject is deleted or hidden, and not something nested in what is selected of it. */
const isUndeliverable = ({ originalError, path = [] }: GraphQLError) =>
  (originalError instanceof GoneError || originalError instanceof HiddenError) && path.length <= PATH_TO_SUBJECT

interface Kept {
  /** Undefined once the cache has evicted it. */
  answer: Answer | undefined
}

const TOO_LARGE: Kept = { answer: undefined }

const newest = new LRUCache<Kept, true>({
  maxSize: MOST_KEPT_CHARACTERS,
  dispose(_, kept) {
    kept.answer = undefined
  },
})

/** Caches an answer until `MOST_KEPT_CHARACTERS` evicts it; all operations share the limit. */
function keptOf(answer: Answer): Kept {
  const kept = { answer }
  newest.set(kept, true, { size: answer.text.length + 1 })
  return newest.has(kept) ? kept : TOO_LARGE
}

/**
 * Caches outcomes: for a log entry, as long as the entry is held and until the cache evicts the outcome; for a
 * snapshot, while it is being executed. Per-viewer answers are not cached.
 */
function createMemory() {
  const ofEntries = new WeakMap<object, Kept | Promise<Outcome>>()
  const ofSnapshots = new Map<string, Promise<Outcome>>()

  function keepWhileLookedUp(of: object | string, outcome: Promise<Outcome>): void {
    const outcomes = (typeof of === 'string' ? ofSnapshots : ofEntries) as Map<unknown, unknown>
    outcomes.set(of, outcome)
    const forget = () => {
      if (outcomes.get(of) === outcome) outcomes.delete(of)
    }
    outcome.then((settled) => {
      forget()
      keep(of, settled)
    }, forget)
  }

  function keep(of: object | string, outcome: MaybePromise<Outcome>): void {
    if (outcome instanceof Promise) keepWhileLookedUp(of, outcome)
    else if (typeof of !== 'string' && !isPersonal(outcome)) ofEntries.set(of, keptOf(outcome))
  }

  function get(of: object | string): Answer | Promise<Outcome> | undefined {
    if (typeof of === 'string') return ofSnapshots.get(of)
    const known = ofEntries.get(of)
    return known instanceof Promise ? known : known?.answer
  }

  return { keep, get }
}

/** The text of an event that is not delivered, since what it is about was deleted or is hidden. */
const UNTOLD = ''

/** Whether the answer is delivered. */
export const isTold = ({ text }: Answer) => text !== UNTOLD

/** Whether the answer has no data although it should be delivered. */
const isLost = (answer: Answer) => !answer.hasData && isTold(answer)

/** The error that ends the subscription of a recipient of this answer. */
function lossOf({ errors }: Answer): Error {
  return errors[0] ?? new Error('the execution of an event returned neither data nor errors')
}

const isWhole = (outcome: Outcome) => !mayPass(outcome) && (isPersonal(outcome) || !isLost(outcome))

/** Returns the per-viewer answers that did not fail; null if there are none. The others are answered again, alone. */
function wholeOnesOf(outcome: Outcome): PersonalAnswers | null {
  if (!isPersonal(outcome)) return null
  const whole = new Map([...outcome].filter(([, one]) => !(one instanceof Error ? isOfMoment(one) : mayPass(one))))
  return whole.size > 0 ? whole : null
}

/** Whether the outcome has an error that a retry may resolve: an internal one, or a deletion between two lookups. */
function mayPass(outcome: Outcome): boolean {
  if (isPersonal(outcome))
    return [...outcome.values()].some((one) => (one instanceof Error ? isOfMoment(one) : mayPass(one)))
  return isTold(outcome) && outcome.errors.some(isOfMoment)
}

const OF_MOMENT: ReadonlySet<unknown> = new Set(['INTERNAL_SERVER_ERROR', 'NOT_FOUND'])

const isOfMoment = (error: Error) => OF_MOMENT.has((error as { extensions?: { code?: unknown } }).extensions?.code)
