import type { Viewer } from '../../access/viewer.ts'
import type { LiveSeat, LiveWindow, LogEntry, SizedEntry } from '../../realtime/event-log.ts'
import { type Answer, isPersonal, type PersonalAnswers } from './answer.ts'
import { type Answers, isTold } from './answers.ts'
import type { LiveRules } from './feed.ts'
import { largeCharactersOf } from './pace.ts'

/**
 * The result of answering a log entry: null if it is not delivered, an Error if it ends the
 * subscription of a recipient.
 */
type Outcome = Answer | PersonalAnswers | Error | null

/**
 * A batch of answered entries after a position: `common` has the same answers for all; `each` is one entry
 * with per-viewer answers. `special` is an entry that the feed itself must deliver to some viewers; `rest` is
 * its batch for the others. `large`: characters that count towards the subscriber's pace.
 */
export type Portion =
  | { type: 'common'; to: number; answers: readonly Answer[]; large: number }
  | { type: 'each'; to: number; outcome: PersonalAnswers | Error }
  | { type: 'special'; entry: LogEntry; rest: Portion | null }

export interface AnsweredEntriesParts {
  answers: Answers
  window: LiveWindow
  rules: LiveRules<object>
  /** Answers the entries after this offset. */
  after: number
  viewers(): Iterable<Viewer>
  /** Whether there is any subscriber to answer for. */
  isNeeded(): boolean
  /** The window no longer covers the position. */
  onLost(): void
  /** Called after each answered entry. */
  onAnswered(entry: SizedEntry): void
}

/**
 * The size of the answers kept for lagging subscribers, in characters. A subscriber that lags further is
 * answered separately.
 */
const MOST_KEPT_CHARACTERS = 4 * 1024 * 1024
/** The size of one batch: the most that a client that does not read holds in this process, besides one event. */
const MOST_PORTION_CHARACTERS = 256 * 1024

/** The entries of a window after a position, answered one after another as they arrive. */
export class AnsweredEntries {
  readonly #parts: AnsweredEntriesParts
  /** The offset of the last answered entry. */
  last: number
  /** Data read before this version must not be used in an answer here. */
  known = 0
  /** By offset, from the first entry that some subscriber has not taken. */
  readonly #outcomes = new Map<number, Outcome>()
  /** The size of all outcomes. */
  #characters = 0
  /** By the offset before the batch; cleared when another entry is answered. */
  readonly #portions = new Map<number, Portion | null>()
  #isAnswering = false

  constructor(parts: AnsweredEntriesParts) {
    this.#parts = parts
    this.last = parts.after
  }

  /** Answers all entries that have arrived. */
  async catchUp(): Promise<void> {
    if (this.#isAnswering) return
    this.#isAnswering = true
    const { window, isNeeded, onLost, onAnswered } = this.#parts
    while (isNeeded()) {
      const entries = window.ahead({ n: this.last })
      if (entries === null) onLost()
      if (entries === null || entries.length === 0) break
      for (const sized of entries) {
        if (!isNeeded()) break
        const answered = this.#outcomeOf(sized)
        const outcome = answered instanceof Promise ? await answered : answered
        this.#note(sized.n, outcome)
        onAnswered(sized)
      }
    }
    this.#isAnswering = false
  }

  /** Returns null if the subscriber at this position must be answered separately. */
  portionAt(seat: LiveSeat): Portion | null {
    const known = this.#portions.get(seat.n)
    if (known !== undefined) return known
    const portion = this.#readPortion(seat)
    this.#portions.set(seat.n, portion)
    return portion
  }

  /**
   * Drops the outcomes that every subscriber has taken: up to `first`. Per-viewer outcomes are not kept for
   * lagging subscribers, which are answered separately.
   */
  forget(first: number, firstOfReady: number): void {
    for (const [n, outcome] of this.#outcomes) {
      if (n <= (outcome instanceof Map ? firstOfReady : first)) this.#drop(n, outcome)
    }
    this.#portions.clear()
  }

  #note(n: number, outcome: Outcome): void {
    this.#outcomes.set(n, outcome)
    this.#characters += charactersOf(outcome)
    for (const [oldest, its] of this.#outcomes) {
      if (this.#characters <= MOST_KEPT_CHARACTERS || oldest === n) break
      this.#drop(oldest, its)
    }
    this.last = n
    this.#portions.clear()
    if (outcome === null || outcome instanceof Error) return
    for (const one of isPersonal(outcome) ? outcome.values() : [outcome]) {
      if (!(one instanceof Error)) this.known = Math.max(this.known, one.asOf.to)
    }
  }

  #drop(n: number, outcome: Outcome): void {
    this.#outcomes.delete(n)
    this.#characters -= charactersOf(outcome)
  }

  #outcomeOf({ entry }: SizedEntry): Outcome | Promise<Outcome> {
    const { answers, rules, viewers } = this.#parts
    const answer = (event: object | null) =>
      event === null ? null : answers.answer({ event, of: entry }, viewers, this.known)
    try {
      const event = rules.eventOf(entry)
      const outcome = event instanceof Promise ? event.then(answer) : answer(event)
      return outcome instanceof Promise ? outcome.catch((error) => error as Error) : outcome
    } catch (error) {
      return error as Error
    }
  }

  #readPortion(seat: LiveSeat): Portion | null {
    const { window, rules } = this.#parts
    const entries = window.ahead(seat)
    const first = entries?.[0]
    if (entries === null || first === undefined) return null
    const single = this.#singleOf(first)
    if (rules.isSpecial(first.entry)) return { type: 'special', entry: first.entry, rest: single }
    if (single?.type !== 'common') return single
    const answers: Answer[] = []
    let to = first.n
    let large = 0
    let characters = 0
    for (const { n, entry } of entries) {
      const outcome = this.#outcomes.get(n)
      if (outcome === undefined || rules.isSpecial(entry)) break
      if (outcome instanceof Map || outcome instanceof Error) break
      if (outcome !== null && isTold(outcome as Answer)) {
        const answer = outcome as Answer
        characters += answer.text.length
        if (characters > MOST_PORTION_CHARACTERS && answers.length > 0) break
        large += largeCharactersOf(answer)
        answers.push(answer)
      }
      to = n
    }
    return { type: 'common', to, answers, large }
  }

  #singleOf({ n }: SizedEntry): Portion | null {
    const outcome = this.#outcomes.get(n)
    if (outcome === undefined) return null
    if (outcome === null) return { type: 'common', to: n, answers: [], large: 0 }
    if (outcome instanceof Error || isPersonal(outcome)) return { type: 'each', to: n, outcome }
    return { type: 'common', to: n, answers: isTold(outcome) ? [outcome] : [], large: largeCharactersOf(outcome) }
  }
}

function charactersOf(outcome: Outcome): number {
  if (outcome === null || outcome instanceof Error) return 0
  if (!isPersonal(outcome)) return outcome.text.length
  return Array.from(outcome.values(), charactersOf).reduce((sum, characters) => sum + characters, 0)
}
