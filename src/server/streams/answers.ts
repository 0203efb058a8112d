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

/** Answers the events of one operation for all who ask it with the same scope and variables. */
export interface Answers {
  /**
   * Executes an event once and remembers its answer for as long as its entry is held; what the event itself says is not even executed
   * (plain-answers.ts). Where an answer asks for anything of the viewer, the event is executed for each of `viewers` instead, with
   * what is looked up for many in one statement. What was looked up
   * before the moment `since` is looked up again: nobody is told what is older than what it knows.
   * @throws what ends everybody's subscription, after some more tries: an event is never left out.
   */
  answer(told: Told<object>, viewers: () => Iterable<Viewer>, since: number): MaybePromise<Outcome>
}

type MaybePromise<T> = T | Promise<T>

export interface AnswersParts {
  /** Nothing in it is one subscriber's. */
  operation: Pick<ExecutionArgs, 'schema' | 'document' | 'operationName' | 'variableValues'>
  /** One of those who ask it. */
  anyViewer: Viewer
  domain: Domain
  streams: Streams
  takesCursors: boolean
  /** See Feed. */
  shownIn: string | null
  maskError: MaskError
  /** Bytes that one event may have. */
  maxResponseBytes: number
}

/** Pauses before an event that could not be answered is tried again: what is looked up may be away for a moment. */
const RETRIES_AFTER_MS = [100, 500]
/** Executions in a row for one event. */
const VIEWERS_AT_ONCE = 512
/** Viewers beyond this many characters of their answers to one event are answered one by one, when they are ready for it. */
const MOST_PERSONAL_CHARACTERS = 16 * 1024 * 1024
/** Of all answers that this process keeps with their entries, in characters. */
const MOST_KEPT_CHARACTERS = 16 * 1024 * 1024
const NO_ERRORS: readonly GraphQLError[] = []
/** Of a subscription's field, and of what its event names. */
const PATH_TO_SUBJECT = 2
const ANY_TIME: Span = { from: Number.POSITIVE_INFINITY, to: 0 }

let moments = 0

/** A moment after all that have been. */
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
    // At the first question, so that everybody's look-ups go out together with those of the probe.
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

  /** Who comes while it is under way may know of more already, and asks again. */
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
   * Those who wait for the same wait for the first look-up that begins late enough for them. Where each gets an answer of its own, all
   * who have waited are answered together next, while those who come meanwhile wait for that: so a crowd that comes back takes a few statements.
   */
  async function answerAfter(other: Promise<Outcome>, ...asked: Parameters<Answers['answer']>): Promise<Outcome> {
    const [told, viewers, since] = asked
    const outcome = await other
    if (isPersonal(outcome)) return beginTogether(told, viewers())
    return outcome.asOf.from >= since ? outcome : answer(...asked)
  }

  const answer: Answers['answer'] = (told, viewers, since) => {
    const text = plainAnswer(told.event)
    // Cheaper made again than remembered.
    if (text !== null) return { text, errors: NO_ERRORS, hasData: true, asOf: ANY_TIME }
    const known = told.of === null ? undefined : remembered.get(told.of)
    if (known instanceof Promise) return answerAfter(known, told, viewers, since)
    return known !== undefined && known.asOf.from >= since ? known : begin(told, viewers())
  }

  return { answer }
}

/** Begins what is asked for in one breath once, for all who ask for it. */
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
  /** Undefined once too much has come after it. */
  answer: Answer | undefined
}

const TOO_LARGE: Kept = { answer: undefined }

const newest = new LRUCache<Kept, true>({
  maxSize: MOST_KEPT_CHARACTERS,
  dispose(_, kept) {
    kept.answer = undefined
  },
})

/** Keeps an answer until so many have come after it, of whatever operation, as `MOST_KEPT_CHARACTERS` allows. */
function keptOf(answer: Answer): Kept {
  const kept = { answer }
  newest.set(kept, true, { size: answer.text.length + 1 })
  return newest.has(kept) ? kept : TOO_LARGE
}

/**
 * Outcomes by what they are of: an entry's for as long as that is held by anybody, or until too much has come after it; a
 * snapshot's while it is looked up. What is personal is not kept.
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

/** Whether it is to be told. */
export const isTold = ({ text }: Answer) => text !== UNTOLD

/** Whether there is nothing in it to be told, though there should be. */
const isLost = (answer: Answer) => !answer.hasData && isTold(answer)

/** What ends the subscription of who is told it. */
function lossOf({ errors }: Answer): Error {
  return errors[0] ?? new Error('an event came to nothing')
}

const isWhole = (outcome: Outcome) => !mayPass(outcome) && (isPersonal(outcome) || !isLost(outcome))

/** Of the answers of many those that did not fail, where there are any: who has none asks again alone, and nobody waits for it. */
function wholeOnesOf(outcome: Outcome): PersonalAnswers | null {
  if (!isPersonal(outcome)) return null
  const whole = new Map([...outcome].filter(([, one]) => !(one instanceof Error ? isOfMoment(one) : mayPass(one))))
  return whole.size > 0 ? whole : null
}

/** Whether something failed that is not the client's fault, or was deleted between two looks, and so may pass. */
function mayPass(outcome: Outcome): boolean {
  if (isPersonal(outcome))
    return [...outcome.values()].some((one) => (one instanceof Error ? isOfMoment(one) : mayPass(one)))
  return isTold(outcome) && outcome.errors.some(isOfMoment)
}

const OF_MOMENT: ReadonlySet<unknown> = new Set(['INTERNAL_SERVER_ERROR', 'NOT_FOUND'])

const isOfMoment = (error: Error) => OF_MOMENT.has((error as { extensions?: { code?: unknown } }).extensions?.code)
