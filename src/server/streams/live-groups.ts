import type { Viewer } from '../../access/viewer.ts'
import type { LiveSeat, LiveWindow, LogEntry, SizedEntry } from '../../realtime/event-log.ts'
import type { WriteSchedule } from '../sockets/write-schedule.ts'
import { type Answer, type Answers, identityOf, isPersonal, type PersonalAnswers } from './answers.ts'
import type { LiveRules } from './feed.ts'
import type { Sink } from './subscribe.ts'

/** A subscriber who has had everything, at its seat. */
export interface LiveSubscriber {
  answers: Answers
  viewer: Viewer
  sink: Sink
  window: LiveWindow
  seat: LiveSeat
  rules: LiveRules<object>
  /** Nothing that was looked up before this moment is told to it. */
  known: number
}

/**
 * Those who have had everything: what comes is answered once for each group of them that asks the same, and then taken and
 * written for one after the other, without a wait in between.
 */
export interface LiveGroups {
  /** Resolves with what is known then, when the subscriber has to go on by itself, or the signal aborts. @throws what ends its subscription. */
  sit(subscriber: LiveSubscriber, until: AbortSignal): Promise<number>
}

interface Member extends LiveSubscriber {
  leave(error?: Error): void
}

export function createLiveGroups(schedule: WriteSchedule): LiveGroups {
  const groups = new WeakMap<Answers, Map<LiveWindow, LiveGroup>>()

  function groupOf({ answers, window, seat, rules }: LiveSubscriber): LiveGroup {
    const ofAnswers = groups.get(answers) ?? new Map<LiveWindow, LiveGroup>()
    groups.set(answers, ofAnswers)
    const known = ofAnswers.get(window)
    if (known !== undefined) return known
    const group = new LiveGroup(answers, window, rules, seat.n, schedule, () => ofAnswers.delete(window))
    ofAnswers.set(window, group)
    return group
  }

  return {
    sit(subscriber, until) {
      if (until.aborted) return Promise.resolve(subscriber.known)
      const group = groupOf(subscriber)
      return new Promise((resolve, reject) => {
        const leave = (error?: Error) => {
          until.removeEventListener('abort', onAbort)
          stopListening()
          group.remove(member)
          if (error === undefined) resolve(group.known)
          else reject(error)
        }
        const member: Member = { ...subscriber, leave }
        const onAbort = () => leave()
        const stopListening = subscriber.sink.whenReady(() => group.serveLater(member))
        until.addEventListener('abort', onAbort)
        group.add(member)
      })
    },
  }
}

/** What an entry comes to; null for one that is not told. */
type Outcome = Answer | PersonalAnswers | Error | null

/** What lies before a seat, as far as it is answered: for all alike, or one entry that has to be looked at for each. */
type Portion =
  | { type: 'common'; to: number; answers: readonly Answer[] }
  | { type: 'each'; to: number; outcome: PersonalAnswers | Error }
  | { type: 'special'; entry: LogEntry; to: number; rest: Portion | null }

/** Entries, after so many of which it is looked who has fallen too far behind. */
const ENTRIES_A_LOOK = 64
/** Given to one member in a row, before the next one has its turn. */
const MOST_PORTIONS = 4

/** Subscribers at one window who ask the same. */
class LiveGroup {
  readonly #answers: Answers
  readonly #window: LiveWindow
  readonly #rules: LiveRules<object>
  readonly #schedule: WriteSchedule
  readonly #stop: () => void
  readonly #members = new Set<Member>()
  /** The latest moment that anybody in it knows of. */
  known = 0
  /** What the entries come to, by number: up to this one, from the first that somebody has yet to take. */
  #answered: number
  readonly #outcomes = new Map<number, Outcome>()
  #isAnswering = false
  /** By the place before them; until more is answered. */
  readonly #portions = new Map<number, Portion | null>()
  #round: Iterator<Member> | null = null
  #isScheduled = false

  constructor(
    answers: Answers,
    window: LiveWindow,
    rules: LiveRules<object>,
    from: number,
    schedule: WriteSchedule,
    onEmpty: () => void,
  ) {
    this.#answers = answers
    this.#window = window
    this.#rules = rules
    this.#answered = from
    this.#schedule = schedule
    const stopListening = window.listen((news) => (news === 'entries' ? this.#onNews() : this.#dismissAll()))
    this.#stop = () => {
      stopListening()
      onEmpty()
    }
  }

  add(member: Member): void {
    this.#members.add(member)
    this.known = Math.max(this.known, member.known)
    this.#onNews()
  }

  remove(member: Member): void {
    if (this.#members.delete(member) && this.#members.size === 0) this.#stop()
  }

  /** Serves one who could not take everything when the others did. */
  serveLater(member: Member): void {
    if (member.seat.n >= this.#answered) return
    this.#schedule.next(() => {
      this.#serve(member)
      return 0
    })
  }

  #onNews(): void {
    if (!this.#isAnswering) void this.#answerAll()
  }

  /** Answers what has come, one entry after the other, and has each written as soon as it can be. */
  async #answerAll(): Promise<void> {
    this.#isAnswering = true
    for (;;) {
      const entries = this.#window.ahead({ n: this.#answered })
      if (entries === null) this.#dismissAll()
      if (entries === null || entries.length === 0 || this.#members.size === 0) break
      for (const sized of entries) {
        const outcome = this.#outcomeOf(sized)
        this.#note(sized.n, outcome instanceof Promise ? await outcome : outcome)
        this.#answered = sized.n
        this.#portions.clear()
        this.#scheduleRound()
        if (sized.n % ENTRIES_A_LOOK === 0) this.#dismissLost()
      }
    }
    this.#isAnswering = false
  }

  #note(n: number, outcome: Outcome): void {
    this.#outcomes.set(n, outcome)
    if (outcome === null || outcome instanceof Error) return
    for (const one of isPersonal(outcome) ? outcome.values() : [outcome]) {
      if (!(one instanceof Error)) this.known = Math.max(this.known, one.asOf.to)
    }
  }

  #outcomeOf({ entry }: SizedEntry): Outcome | Promise<Outcome> {
    const answer = (event: object | null) =>
      event === null ? null : this.#answers.answer({ event, of: entry }, () => this.#viewers(), this.known)
    try {
      const event = this.#rules.eventOf(entry)
      const outcome = event instanceof Promise ? event.then(answer) : answer(event)
      return outcome instanceof Promise ? outcome.catch((error) => error as Error) : outcome
    } catch (error) {
      return error as Error
    }
  }

  *#viewers(): Generator<Viewer> {
    for (const { viewer } of this.#members) yield viewer
  }

  #scheduleRound(): void {
    if (this.#isScheduled) return
    this.#isScheduled = true
    this.#schedule.next((most) => this.#serveSome(most))
  }

  #serveSome(most: number): number {
    this.#round ??= this.#members.values()
    for (let count = 0; count < most; count++) {
      const { done, value } = this.#round.next()
      if (done) {
        this.#endRound()
        return count
      }
      this.#serve(value)
    }
    return most
  }

  #endRound(): void {
    this.#round = null
    this.#isScheduled = false
    let first = this.#answered
    let firstOfReady = this.#answered
    for (const { seat, sink } of this.#members) {
      if (seat.n < first) first = seat.n
      if (seat.n < firstOfReady && !sink.isBusy()) firstOfReady = seat.n
    }
    for (const [n, outcome] of this.#outcomes) {
      // What is each one's own is not kept for those who lag: they ask for it themselves.
      if (n <= (outcome instanceof Map ? firstOfReady : first)) this.#outcomes.delete(n)
    }
    this.#portions.clear()
    if (firstOfReady < this.#answered) this.#scheduleRound()
  }

  /** Gives a member what there is, as far as it takes it. */
  #serve(member: Member): void {
    const { seat, sink } = member
    for (let given = 0; given < MOST_PORTIONS; given++) {
      if (seat.n >= this.#answered || sink.isBusy() || !this.#members.has(member)) return
      this.#serveOne(member)
    }
  }

  #serveOne(member: Member): void {
    const { seat } = member
    let portion = this.#portions.get(seat.n)
    if (portion === undefined) {
      portion = this.#portionAt(seat)
      this.#portions.set(seat.n, portion)
    }
    if (portion?.type === 'special') {
      portion = this.#rules.concerns(portion.entry, member.viewer.id) ? null : portion.rest
    }
    if (portion === null) member.leave()
    else this.#give(portion, member)
  }

  #give(portion: Portion, member: Member): void {
    if (portion.type === 'special') {
      member.leave()
      return
    }
    if (portion.type === 'common') {
      if (portion.answers.length > 0) member.sink.send(portion.answers)
    } else {
      const own = portion.outcome instanceof Error ? portion.outcome : portion.outcome.get(identityOf(member.viewer))
      // It came after the entry was answered, or must not be told it.
      if (own === undefined || own instanceof Error) {
        member.leave(own)
        return
      }
      member.sink.send([own])
    }
    this.#window.skip(member.seat, portion.to)
  }

  /** Null for what a member has to be told by itself. */
  #portionAt(seat: LiveSeat): Portion | null {
    const entries = this.#window.ahead(seat)
    if (entries === null) return null
    const [first] = entries
    if (first === undefined) return null
    const single = this.#singleAt(first)
    if (this.#rules.isSpecial(first.entry)) return { type: 'special', entry: first.entry, to: first.n, rest: single }
    if (single?.type !== 'common') return single
    const answers: Answer[] = []
    let to = first.n
    for (const { n, entry } of entries) {
      const outcome = this.#outcomes.get(n)
      if (n > this.#answered || outcome === undefined || this.#rules.isSpecial(entry)) break
      if (outcome instanceof Map || outcome instanceof Error) break
      if (outcome !== null) answers.push(outcome as Answer)
      to = n
    }
    return { type: 'common', to, answers }
  }

  #singleAt({ n }: SizedEntry): Portion | null {
    const outcome = this.#outcomes.get(n)
    if (outcome === undefined) return null
    if (outcome === null) return { type: 'common', to: n, answers: [] }
    if (outcome instanceof Error || isPersonal(outcome)) return { type: 'each', to: n, outcome }
    return { type: 'common', to: n, answers: [outcome] }
  }

  /** Those who are too slow, whom no round reaches: what they have not taken must not be kept. */
  #dismissLost(): void {
    let first = this.#answered
    for (const member of [...this.#members]) {
      if (this.#window.isLost(member.seat)) member.leave()
      else first = Math.min(first, member.seat.n)
    }
    for (const n of this.#outcomes.keys()) if (n <= first) this.#outcomes.delete(n)
  }

  #dismissAll(): void {
    for (const member of [...this.#members]) member.leave()
  }
}
