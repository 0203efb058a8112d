import type { Viewer } from '../../access/viewer.ts'
import type { LiveSeat, LiveWindow, LogEntry, SizedEntry } from '../../realtime/event-log.ts'
import { type Answer, isPersonal, type PersonalAnswers } from './answer.ts'
import { type Answers, isTold } from './answers.ts'
import type { LiveRules } from './feed.ts'
import { largeCharactersOf } from './pace.ts'

/** What an entry comes to; null for one that is not told, an error for one that ends the subscription of who would be told it. */
type Outcome = Answer | PersonalAnswers | Error | null

/**
 * What lies before a seat, as far as it is answered: for all alike, or one entry that has to be looked at for each. `special`: the
 * feed has to tell it to some; `rest` is what it is for the others. `large`: characters that count for the receiver's pace.
 */
export type Portion =
  | { type: 'common'; to: number; answers: readonly Answer[]; large: number }
  | { type: 'each'; to: number; outcome: PersonalAnswers | Error }
  | { type: 'special'; entry: LogEntry; rest: Portion | null }

export interface AnsweredEntriesParts {
  answers: Answers
  window: LiveWindow
  rules: LiveRules<object>
  /** Answers what comes after this entry. */
  after: number
  viewers(): Iterable<Viewer>
  /** Whether there is anybody to answer for. */
  isNeeded(): boolean
  /** The window no longer covers the place. */
  onLost(): void
  /** One more is answered. */
  onAnswered(entry: SizedEntry): void
}

/** Of what is kept for those who lag, in characters: who lags further behind asks for itself. */
const MOST_KEPT_CHARACTERS = 4 * 1024 * 1024
/** Of one portion: what a subscriber who does not read holds in this process, beside one event. */
const MOST_PORTION_CHARACTERS = 256 * 1024

/** The entries of a window from a place on, answered one after the other as they come. */
export class AnsweredEntries {
  readonly #parts: AnsweredEntriesParts
  /** The last one that is answered. */
  last: number
  /** Nothing that was looked up before this moment is an answer here. */
  known = 0
  /** By number, from the first that somebody has yet to take. */
  readonly #outcomes = new Map<number, Outcome>()
  /** Of all of them together. */
  #characters = 0
  /** By the place before them, until more is answered. */
  readonly #portions = new Map<number, Portion | null>()
  #isAnswering = false

  constructor(parts: AnsweredEntriesParts) {
    this.#parts = parts
    this.last = parts.after
  }

  /** Answers what has come. */
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

  /** Null for what has to be told to a seat by itself. */
  portionAt(seat: LiveSeat): Portion | null {
    const known = this.#portions.get(seat.n)
    if (known !== undefined) return known
    const portion = this.#readPortion(seat)
    this.#portions.set(seat.n, portion)
    return portion
  }

  /** Forgets what everybody has: up to `first`. What is each one's own is not kept for those who lag: they ask for it themselves. */
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
