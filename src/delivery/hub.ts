// The hub: delivers new publications to all caught-up subscribers, in groups that share answers.
//
// Optimization: one loop delivers to all caught-up subscribers of a topic. To remove this stage, omit `onCaughtUp` in
// feeds/space.ts and feeds/run.ts; each subscriber then reads its own iterator. Gain: 2.1 to 4.1 × less CPU per message
// (docs/decisions/delivery-stages.md). All CPU limits of `bench/fanout` and `bench/crowd` need this stage.
import type { Registry } from 'prom-client'
import type { Viewer } from '../access/viewer.ts'
import type { Publication, SharedWindow, SizedPublication, SubscriberPosition } from '../broker/log.ts'
import { histogram } from '../lib/metrics.ts'
import { asOwnWork } from '../lib/requester-context.ts'
import { type Answer, type EventAnswer, identityOf, isPersonal, type PersonalAnswers, type Sink } from './answer.ts'
import { type Answers, isDeliverable } from './answers.ts'
import { largeCharactersOf, type Pace } from './backpressure.ts'
import type { HubRules } from './feed.ts'
import { createWriteSchedule, type WriteSchedule } from './write-schedule.ts'

/** A caught-up subscriber at its position. */
export interface CaughtUpSubscriber {
  answers: Answers
  viewer: Viewer
  sink: Sink
  pace: Pace
  window: SharedWindow
  position: SubscriberPosition
  rules: HubRules<object>
  /** Data read before this version must not be delivered to the subscriber. */
  readVersion: number
}

/**
 * Delivers to caught-up subscribers. Creates the answer to each publication once for all subscribers with the same
 * answer key. Then sends the answer to one subscriber after another, without awaiting anything in between.
 */
export interface Hub {
  /**
   * Attaches a subscriber. Resolves when the subscriber must continue alone or at its own pace, or when the signal
   * aborts. The value is the version of the newest data that the subscriber may have received.
   * @throws the error that ends its subscription
   */
  attach(subscriber: CaughtUpSubscriber, until: AbortSignal): Promise<number>
}

interface AttachedSubscriber extends CaughtUpSubscriber {
  /** Set when the subscriber has left. Checking this flag is faster than looking for the subscriber in the set. */
  isGone: boolean
  leave(error?: Error): void
}

/** The number of publications between two checks for lagging subscribers. */
const PUBLICATIONS_A_CHECK = 64
/** The maximum number of batches that are sent to one subscriber before the next subscriber gets its turn. */
const MOST_BATCHES = 4

/**
 * How often the hub tries to create an additional event (see `Besides`). It may have to try again because
 * publications keep arriving. After this many tries, it defers the event.
 */
const MOST_TRIES = 3

const LAG_SECONDS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5]

export function createHub(metrics: Registry): Hub {
  const schedule = createWriteSchedule()
  const lag = histogram(
    metrics,
    'parley_fanout_lag_seconds',
    'Time from appending an event, by the clock of the appending process, to sending it to all subscribers of a group in this process.',
    { buckets: LAG_SECONDS },
  )
  const groups = new WeakMap<Answers, Map<SharedWindow, HubGroup>>()

  function groupOf(subscriber: CaughtUpSubscriber): HubGroup {
    const { answers, window } = subscriber
    const ofAnswers = groups.get(answers) ?? new Map<SharedWindow, HubGroup>()
    groups.set(answers, ofAnswers)
    const existing = ofAnswers.get(window)
    if (existing !== undefined) return existing
    const onRound = (at: number) => lag.observe(Math.max(0, Date.now() - at) / 1000)
    const group = new HubGroup(subscriber, { schedule, onRound }, () => ofAnswers.delete(window))
    ofAnswers.set(window, group)
    return group
  }

  return {
    attach(subscriber, until) {
      if (until.aborted) return Promise.resolve(subscriber.readVersion)
      const group = groupOf(subscriber)
      return new Promise((resolve, reject) => {
        const leave = (error?: Error) => {
          until.removeEventListener('abort', onAbort)
          stopListening()
          group.remove(attached)
          if (error === undefined) resolve(group.publications.readVersion)
          else reject(error)
        }
        const attached: AttachedSubscriber = { ...subscriber, isGone: false, leave }
        const onAbort = () => leave()
        const stopListening = subscriber.sink.whenReady(() => group.serveLater(attached))
        until.addEventListener('abort', onAbort)
        group.add(attached)
      })
    },
  }
}

/** The subscribers of one window that have the same answer key. */
class HubGroup {
  readonly publications: AnsweredPublications
  readonly #answers: Answers
  readonly #window: SharedWindow
  readonly #rules: HubRules<object>
  readonly #schedule: WriteSchedule
  readonly #onRound: (at: number) => void
  readonly #stop: () => void
  readonly #subscribers = new Set<AttachedSubscriber>()
  #round: Iterator<AttachedSubscriber> | null = null
  /** The lowest position among the subscribers that were served in this round. */
  #first = Number.POSITIVE_INFINITY
  #isScheduled = false
  #isSendingBesides = false
  /**
   * The time at which the first publication of this round was appended; null for a round that serves lagging
   * subscribers.
   */
  #roundOf: number | null = null

  constructor(
    { answers, window, rules, position }: CaughtUpSubscriber,
    { schedule, onRound }: { schedule: WriteSchedule; onRound: (at: number) => void },
    onEmpty: () => void,
  ) {
    this.#answers = answers
    this.#window = window
    this.#rules = rules
    this.#schedule = schedule
    this.#onRound = onRound
    this.publications = new AnsweredPublications({
      answers,
      window,
      rules,
      after: position.offset,
      viewers: () => this.#viewers(),
      isNeeded: () => this.#subscribers.size > 0,
      onLost: () => this.#removeAll(),
      onAnswered: ({ offset, publication }) => this.#onAnswered(offset, publication.at),
    })
    const stopListening = window.listen((change) => {
      if (change === 'publications') void this.publications.catchUp()
      else this.#removeAll()
    })
    const stopBesides = rules.besides?.source.listen(() => void this.#sendBesides())
    this.#stop = () => {
      stopListening()
      stopBesides?.()
      onEmpty()
    }
  }

  /**
   * Sends every caught-up subscriber the additional events that it has not received. Subscribers that lag, or whose
   * clients do not read, get these events at the next call.
   */
  async #sendBesides(): Promise<void> {
    if (this.#isSendingBesides) return this.#rules.besides?.source.notifyAgain()
    this.#isSendingBesides = true
    const source = this.#rules.besides?.source
    const behind = [...this.#subscribers].flatMap(({ rules: { besides } }) => besides?.received.version ?? [])
    for (const version of new Set(behind)) {
      if (source === undefined || version >= source.version) continue
      const isSent = await this.#sendChangesSince(version, source.version).catch(() => false)
      if (!isSent) source.notifyAgain()
    }
    this.#isSendingBesides = false
  }

  /** Returns false if not every subscriber with this version could take the event. */
  async #sendChangesSince(version: number, to: number): Promise<boolean> {
    for (let tries = 0; tries < MOST_TRIES; tries++) {
      const { last } = this.publications
      const event = this.#rules.besides?.eventSince(version, this.#window.cursorOf({ offset: last }))
      if (event === undefined) return true
      const found = this.#answers.answer(
        { event, shareKey: null },
        () => this.#viewers(),
        this.publications.readVersion,
      )
      const answer = found instanceof Promise ? await found : found
      // The event has the cursor of the last publication, so all recipients must have received this publication.
      if (this.publications.last !== last) continue
      return this.#giveBesides(answer, { version, to, last })
    }
    return false
  }

  #giveBesides(answer: EventAnswer, { version, to, last }: { version: number; to: number; last: number }): boolean {
    let isComplete = true
    for (const subscriber of [...this.#subscribers]) {
      const { received } = subscriber.rules.besides ?? {}
      if (received?.version !== version) continue
      const own = isPersonal(answer) ? answer.get(identityOf(subscriber.viewer)) : answer
      if (own === undefined || subscriber.position.offset !== last || subscriber.sink.isBusy()) {
        isComplete = false
        continue
      }
      const isSent = !(own instanceof Error) && own.hasData && isDeliverable(own)
      // A subscriber that exceeds its pace leaves the group, and gets the event when it is added again.
      if (isSent && !this.#isInPace(subscriber, largeCharactersOf(own))) continue
      received.version = to
      if (isSent) subscriber.sink.send([own])
    }
    return isComplete
  }

  add(subscriber: AttachedSubscriber): void {
    this.#subscribers.add(subscriber)
    this.#window.offer(subscriber.position, subscriber.position.offset)
    this.publications.readVersion = Math.max(this.publications.readVersion, subscriber.readVersion)
    void this.publications.catchUp()
    const { besides } = subscriber.rules
    if (besides != null && besides.received.version < besides.source.version) besides.source.notifyAgain()
  }

  remove(subscriber: AttachedSubscriber): void {
    if (!this.#subscribers.delete(subscriber)) return
    subscriber.isGone = true
    this.#window.offer(subscriber.position, null)
    if (this.#subscribers.size === 0) this.#stop()
  }

  /** Serves a subscriber that could not take all publications in its round. */
  serveLater(subscriber: AttachedSubscriber): void {
    if (subscriber.position.offset >= this.publications.last) return
    this.#schedule.next(() => {
      this.#serve(subscriber)
      return 0
    })
  }

  #onAnswered(offset: number, at: number | null): void {
    if (offset % PUBLICATIONS_A_CHECK === 0) this.#removeLost()
    if (this.#isScheduled || this.#subscribers.size === 0) return
    this.#isScheduled = true
    this.#roundOf = at
    this.#schedule.next((most) => this.#serveSome(most))
  }

  *#viewers(): Generator<Viewer> {
    for (const { viewer } of this.#subscribers) yield viewer
  }

  #serveSome(most: number): number {
    this.#round ??= this.#subscribers.values()
    for (let count = 0; count < most; count++) {
      const { done, value } = this.#round.next()
      if (done) {
        this.#endRound()
        return count
      }
      this.#serve(value)
      if (!value.isGone && value.position.offset < this.#first) this.#first = value.position.offset
    }
    return most
  }

  #endRound(): void {
    this.#round = null
    this.#isScheduled = false
    if (this.#roundOf !== null) this.#onRound(this.#roundOf)
    const { last } = this.publications
    let first = last
    let firstOfReady = last
    // Usually, every subscriber is caught up, and the loop can be skipped.
    if (this.#first < last) {
      for (const { position, sink } of this.#subscribers) {
        if (position.offset < first) first = position.offset
        if (position.offset < firstOfReady && !sink.isBusy()) firstOfReady = position.offset
      }
    }
    this.#first = Number.POSITIVE_INFINITY
    this.publications.forget(first, firstOfReady)
    if (firstOfReady < last) this.#onAnswered(firstOfReady, null)
  }

  /** Sends the waiting batches to a subscriber until its sink can take no more. */
  #serve(subscriber: AttachedSubscriber): void {
    const { position, sink } = subscriber
    for (let given = 0; given < MOST_BATCHES; given++) {
      if (position.offset >= this.publications.last || subscriber.isGone) return
      if (sink.isBusy()) {
        // The publications are recorded as offered to this sink, because only offered publications count towards
        // the lag.
        if (given === 0) this.#window.offer(position, this.publications.last)
        return
      }
      const batch = this.publications.batchAt(position)
      const own =
        batch?.type !== 'needsFeed'
          ? batch
          : this.#rules.needsFeed(batch.publication, subscriber.viewer.id)
            ? null
            : batch.forOthers
      if (own === null || own.type === 'needsFeed') subscriber.leave()
      else this.#sendBatch(own, subscriber)
    }
  }

  #sendBatch(batch: Exclude<Batch, { type: 'needsFeed' }>, subscriber: AttachedSubscriber): void {
    if (batch.type === 'shared') {
      if (batch.large > 0 && !this.#isInPace(subscriber, batch.large)) return
      if (batch.answers.length > 0) subscriber.sink.send(batch.answers)
    } else {
      const { answer } = batch
      const own = answer instanceof Error ? answer : answer.get(identityOf(subscriber.viewer))
      // Either the subscriber attached after the publication was answered, or it must not receive the publication.
      if (own === undefined || own instanceof Error) {
        subscriber.leave(own)
        return
      }
      const large = largeCharactersOf(own)
      if (large > 0 && !this.#isInPace(subscriber, large)) return
      if (isDeliverable(own)) subscriber.sink.send([own])
    }
    this.#window.advance(subscriber.position, batch.to)
  }

  /**
   * Whether the subscriber's pace allows this many characters. If it does not, the subscriber leaves the group, so
   * that the others do not wait for it.
   */
  #isInPace(subscriber: AttachedSubscriber, largeCharacters: number): boolean {
    if (subscriber.pace.take(largeCharacters)) return true
    subscriber.leave()
    return false
  }

  /**
   * Removes subscribers that must continue through their own iteration. The hub then keeps no more answers for
   * them.
   */
  #removeLost(): void {
    for (const subscriber of [...this.#subscribers]) if (this.#window.isLost(subscriber.position)) subscriber.leave()
    const first = Math.min(this.publications.last, ...Array.from(this.#subscribers, ({ position }) => position.offset))
    this.publications.forget(first, first)
  }

  #removeAll(): void {
    for (const subscriber of [...this.#subscribers]) subscriber.leave()
  }
}

/**
 * The result of answering a publication. It is null if the publication is not delivered, and an Error if it ends
 * the subscriptions of the recipients.
 */
type PublicationAnswer = Answer | PersonalAnswers | Error | null

/**
 * A batch of answered publications after a position. `shared` contains the same answers for all subscribers.
 * `personal` is one publication with per-viewer answers. `needsFeed` is a publication that the feed itself must
 * deliver to some viewers, and `forOthers` is the batch for the other viewers. `large`: the number of characters
 * that count towards the subscriber's pace.
 */
export type Batch =
  | { type: 'shared'; to: number; answers: readonly Answer[]; large: number }
  | { type: 'personal'; to: number; answer: PersonalAnswers | Error }
  | { type: 'needsFeed'; publication: Publication; forOthers: Batch | null }

export interface AnsweredPublicationsParts {
  answers: Answers
  window: SharedWindow
  rules: HubRules<object>
  /** The offset after which publications are answered. */
  after: number
  viewers(): Iterable<Viewer>
  /** Whether there are any subscribers to answer for. */
  isNeeded(): boolean
  /** Called when the window no longer holds the next publication. */
  onLost(): void
  /** Called after each answered publication. */
  onAnswered(publication: SizedPublication): void
}

/**
 * The maximum size, in characters, of the answers that are kept for lagging subscribers. A subscriber that lags
 * further is answered separately.
 */
const MOST_KEPT_CHARACTERS = 4 * 1024 * 1024
/**
 * The maximum size of one batch, in characters. This process keeps at most one batch and one event for a client
 * that does not read.
 */
const MOST_BATCH_CHARACTERS = 256 * 1024

/** Answers the publications of a window that come after a position, one after another, as they arrive. */
export class AnsweredPublications {
  readonly #parts: AnsweredPublicationsParts
  /** The offset of the last answered publication. */
  last: number
  /** Data read before this version must not be used in an answer of this window. */
  readVersion = 0
  /** The answers by offset. They begin with the first publication that some subscriber has yet to receive. */
  readonly #answers = new Map<number, PublicationAnswer>()
  /** The size of all answers. */
  #characters = 0
  /** The batches by the offset before them. Cleared when another publication is answered. */
  readonly #batches = new Map<number, Batch | null>()
  #isAnswering = false

  constructor(parts: AnsweredPublicationsParts) {
    this.#parts = parts
    this.last = parts.after
  }

  /**
   * Answers all publications that have arrived, for all subscribers. Must be called when publications arrive or a
   * subscriber attaches.
   */
  async catchUp(): Promise<void> {
    if (!this.#isAnswering) await asOwnWork(() => this.#answerArrived())
  }

  async #answerArrived(): Promise<void> {
    this.#isAnswering = true
    const { window, isNeeded, onLost, onAnswered } = this.#parts
    while (isNeeded()) {
      const publications = window.publicationsAfter({ offset: this.last })
      if (publications === null) onLost()
      if (publications === null || publications.length === 0) break
      for (const sized of publications) {
        if (!isNeeded()) break
        const answered = this.#answerOf(sized)
        const answer = answered instanceof Promise ? await answered : answered
        this.#record(sized.offset, answer)
        onAnswered(sized)
      }
    }
    this.#isAnswering = false
  }

  /** Returns the batch after a position; null if the subscriber at this position must be answered separately. */
  batchAt(position: SubscriberPosition): Batch | null {
    const cached = this.#batches.get(position.offset)
    if (cached !== undefined) return cached
    const batch = this.#readBatch(position)
    this.#batches.set(position.offset, batch)
    return batch
  }

  /**
   * Drops the answers up to `first`, which every subscriber has received. Also drops the per-viewer answers up to
   * `firstOfReady`: such answers are not kept for subscribers whose clients do not read. These subscribers are
   * answered separately later.
   */
  forget(first: number, firstOfReady: number): void {
    for (const [offset, answer] of this.#answers) {
      if (offset <= (answer instanceof Map ? firstOfReady : first)) this.#drop(offset, answer)
    }
    this.#batches.clear()
  }

  #record(offset: number, answer: PublicationAnswer): void {
    this.#answers.set(offset, answer)
    this.#characters += charactersOf(answer)
    for (const [oldest, its] of this.#answers) {
      if (this.#characters <= MOST_KEPT_CHARACTERS || oldest === offset) break
      this.#drop(oldest, its)
    }
    this.last = offset
    this.#batches.clear()
    if (answer === null || answer instanceof Error) return
    for (const one of isPersonal(answer) ? answer.values() : [answer]) {
      if (!(one instanceof Error)) this.readVersion = Math.max(this.readVersion, one.versions.to)
    }
  }

  #drop(offset: number, answer: PublicationAnswer): void {
    this.#answers.delete(offset)
    this.#characters -= charactersOf(answer)
  }

  #answerOf({ publication }: SizedPublication): PublicationAnswer | Promise<PublicationAnswer> {
    const { answers, rules, viewers } = this.#parts
    const answerEvent = (event: object | null) =>
      event === null ? null : answers.answer({ event, shareKey: publication }, viewers, this.readVersion)
    try {
      const event = rules.eventOf(publication)
      const answer = event instanceof Promise ? event.then(answerEvent) : answerEvent(event)
      return answer instanceof Promise ? answer.catch((error) => error as Error) : answer
    } catch (error) {
      return error as Error
    }
  }

  #readBatch(position: SubscriberPosition): Batch | null {
    const { window, rules } = this.#parts
    const publications = window.publicationsAfter(position)
    const first = publications?.[0]
    if (publications === null || first === undefined) return null
    const single = this.#batchOfOne(first)
    if (rules.mayNeedFeed(first.publication))
      return { type: 'needsFeed', publication: first.publication, forOthers: single }
    if (single?.type !== 'shared') return single
    const answers: Answer[] = []
    let to = first.offset
    let large = 0
    let characters = 0
    for (const { offset, publication } of publications) {
      const answer = this.#answers.get(offset)
      if (answer === undefined || rules.mayNeedFeed(publication)) break
      if (answer instanceof Error || (answer !== null && isPersonal(answer))) break
      if (answer !== null && !isPersonal(answer) && isDeliverable(answer)) {
        characters += answer.text.length
        if (characters > MOST_BATCH_CHARACTERS && answers.length > 0) break
        large += largeCharactersOf(answer)
        answers.push(answer)
      }
      to = offset
    }
    return { type: 'shared', to, answers, large }
  }

  #batchOfOne({ offset }: SizedPublication): Batch | null {
    const answer = this.#answers.get(offset)
    if (answer === undefined) return null
    if (answer === null) return { type: 'shared', to: offset, answers: [], large: 0 }
    if (answer instanceof Error || isPersonal(answer)) return { type: 'personal', to: offset, answer }
    return {
      type: 'shared',
      to: offset,
      answers: isDeliverable(answer) ? [answer] : [],
      large: largeCharactersOf(answer),
    }
  }
}

function charactersOf(answer: PublicationAnswer): number {
  if (answer === null || answer instanceof Error) return 0
  if (!isPersonal(answer)) return answer.text.length
  return Array.from(answer.values(), charactersOf).reduce((sum, characters) => sum + characters, 0)
}
