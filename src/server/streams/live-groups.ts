import type { Registry } from 'prom-client'
import type { Viewer } from '../../access/viewer.ts'
import { histogram } from '../../lib/metrics.ts'
import type { LiveSeat, LiveWindow } from '../../realtime/event-log.ts'
import type { WriteSchedule } from '../sockets/write-schedule.ts'
import { identityOf } from './answer.ts'
import { AnsweredEntries, type Portion } from './answered-entries.ts'
import { type Answers, isTold } from './answers.ts'
import type { LiveRules } from './feed.ts'
import { largeCharactersOf, type Pace } from './pace.ts'
import type { Sink } from './sink.ts'

/** A caught-up subscriber at its position. */
export interface LiveSubscriber {
  answers: Answers
  viewer: Viewer
  sink: Sink
  pace: Pace
  window: LiveWindow
  seat: LiveSeat
  rules: LiveRules<object>
  /** Data read before this version must not be delivered to it. */
  known: number
}

/**
 * Delivers to caught-up subscribers: each entry is answered once per group of subscribers with the same
 * answer key, and then sent to one after another without awaiting in between.
 */
export interface LiveGroups {
  /**
   * Attaches a subscriber. Resolves with its data version when it must continue alone or at its own pace, or
   * when the signal aborts.
   * @throws the error that ends its subscription
   */
  sit(subscriber: LiveSubscriber, until: AbortSignal): Promise<number>
}

interface Member extends LiveSubscriber {
  /** Faster to check, for each of many members, than membership in the set. */
  isGone: boolean
  leave(error?: Error): void
}

/** How often, in entries, members are checked for lag. */
const ENTRIES_A_LOOK = 64
/** The number of batches sent to one member before the next member's turn. */
const MOST_PORTIONS = 4

const LAG_SECONDS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5]

export function createLiveGroups(schedule: WriteSchedule, metrics: Registry): LiveGroups {
  const lag = histogram(
    metrics,
    'parley_fanout_lag_seconds',
    'Time from the append of an event, by the clock of the appending process, until all subscribers of a group in this process were sent it.',
    { buckets: LAG_SECONDS },
  )
  const groups = new WeakMap<Answers, Map<LiveWindow, LiveGroup>>()

  function groupOf(subscriber: LiveSubscriber): LiveGroup {
    const { answers, window } = subscriber
    const ofAnswers = groups.get(answers) ?? new Map<LiveWindow, LiveGroup>()
    groups.set(answers, ofAnswers)
    const known = ofAnswers.get(window)
    if (known !== undefined) return known
    const onRound = (at: number) => lag.observe(Math.max(0, Date.now() - at) / 1000)
    const group = new LiveGroup(subscriber, { schedule, onRound }, () => ofAnswers.delete(window))
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
          if (error === undefined) resolve(group.entries.known)
          else reject(error)
        }
        const member: Member = { ...subscriber, isGone: false, leave }
        const onAbort = () => leave()
        const stopListening = subscriber.sink.whenReady(() => group.serveLater(member))
        until.addEventListener('abort', onAbort)
        group.add(member)
      })
    },
  }
}

/** The subscribers of one window with the same answer key. */
class LiveGroup {
  readonly entries: AnsweredEntries
  readonly #window: LiveWindow
  readonly #rules: LiveRules<object>
  readonly #schedule: WriteSchedule
  readonly #onRound: (at: number) => void
  readonly #stop: () => void
  readonly #members = new Set<Member>()
  #round: Iterator<Member> | null = null
  /** The lowest offset at which this round has left a member. */
  #first = Number.POSITIVE_INFINITY
  #isScheduled = false
  /** When the first entry of this round was appended; null for a round that serves lagging members. */
  #roundOf: number | null = null

  constructor(
    { answers, window, rules, seat }: LiveSubscriber,
    { schedule, onRound }: { schedule: WriteSchedule; onRound: (at: number) => void },
    onEmpty: () => void,
  ) {
    this.#window = window
    this.#rules = rules
    this.#schedule = schedule
    this.#onRound = onRound
    this.entries = new AnsweredEntries({
      answers,
      window,
      rules,
      after: seat.n,
      viewers: () => this.#viewers(),
      isNeeded: () => this.#members.size > 0,
      onLost: () => this.#dismissAll(),
      onAnswered: ({ n, entry }) => this.#onAnswered(n, entry.at),
    })
    const stopListening = window.listen((change) => {
      if (change === 'entries') void this.entries.catchUp()
      else this.#dismissAll()
    })
    this.#stop = () => {
      stopListening()
      onEmpty()
    }
  }

  add(member: Member): void {
    this.#members.add(member)
    this.#window.offer(member.seat, member.seat.n)
    this.entries.known = Math.max(this.entries.known, member.known)
    void this.entries.catchUp()
  }

  remove(member: Member): void {
    if (!this.#members.delete(member)) return
    member.isGone = true
    this.#window.offer(member.seat, null)
    if (this.#members.size === 0) this.#stop()
  }

  /** Serves a member that could not take everything during its round. */
  serveLater(member: Member): void {
    if (member.seat.n >= this.entries.last) return
    this.#schedule.next(() => {
      this.#serve(member)
      return 0
    })
  }

  #onAnswered(n: number, at: number | null): void {
    if (n % ENTRIES_A_LOOK === 0) this.#dismissLost()
    if (this.#isScheduled || this.#members.size === 0) return
    this.#isScheduled = true
    this.#roundOf = at
    this.#schedule.next((most) => this.#serveSome(most))
  }

  *#viewers(): Generator<Viewer> {
    for (const { viewer } of this.#members) yield viewer
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
      if (!value.isGone && value.seat.n < this.#first) this.#first = value.seat.n
    }
    return most
  }

  #endRound(): void {
    this.#round = null
    this.#isScheduled = false
    if (this.#roundOf !== null) this.#onRound(this.#roundOf)
    const { last } = this.entries
    let first = last
    let firstOfReady = last
    // Nearly always every member is caught up, and this loop is skipped.
    if (this.#first < last) {
      for (const { seat, sink } of this.#members) {
        if (seat.n < first) first = seat.n
        if (seat.n < firstOfReady && !sink.isBusy()) firstOfReady = seat.n
      }
    }
    this.#first = Number.POSITIVE_INFINITY
    this.entries.forget(first, firstOfReady)
    if (firstOfReady < last) this.#onAnswered(firstOfReady, null)
  }

  /** Sends a member the waiting batches, as far as its sink takes them. */
  #serve(member: Member): void {
    const { seat, sink } = member
    for (let given = 0; given < MOST_PORTIONS; given++) {
      if (seat.n >= this.entries.last || member.isGone) return
      if (sink.isBusy()) {
        // Record what this sink refused; entries it was never offered do not count towards lag.
        if (given === 0) this.#window.offer(seat, this.entries.last)
        return
      }
      const portion = this.entries.portionAt(seat)
      const own =
        portion?.type !== 'special'
          ? portion
          : this.#rules.concerns(portion.entry, member.viewer.id)
            ? null
            : portion.rest
      if (own === null || own.type === 'special') member.leave()
      else this.#give(own, member)
    }
  }

  #give(portion: Exclude<Portion, { type: 'special' }>, member: Member): void {
    if (portion.type === 'common') {
      if (portion.large > 0 && !this.#isInPace(member, portion.large)) return
      if (portion.answers.length > 0) member.sink.send(portion.answers)
    } else {
      const { outcome } = portion
      const own = outcome instanceof Error ? outcome : outcome.get(identityOf(member.viewer))
      // The member attached after the entry was answered, or must not receive it.
      if (own === undefined || own instanceof Error) {
        member.leave(own)
        return
      }
      const large = largeCharactersOf(own)
      if (large > 0 && !this.#isInPace(member, large)) return
      if (isTold(own)) member.sink.send([own])
    }
    this.#window.skip(member.seat, portion.to)
  }

  /**
   * Whether the member's pace allows this many characters. If not, the member leaves the group, so that
   * nobody waits for it.
   */
  #isInPace(member: Member, largeCharacters: number): boolean {
    if (member.pace.take(largeCharacters)) return true
    member.leave()
    return false
  }

  /** Removes members that lag too far behind and that no round reaches, so that their entries are not kept. */
  #dismissLost(): void {
    for (const member of [...this.#members]) if (this.#window.isLost(member.seat)) member.leave()
    const first = Math.min(this.entries.last, ...Array.from(this.#members, ({ seat }) => seat.n))
    this.entries.forget(first, first)
  }

  #dismissAll(): void {
    for (const member of [...this.#members]) member.leave()
  }
}
