import { asOwnWork } from '../../lib/requester-context.ts'
import { decodeCursor, encodeCursor, newEpoch } from '../cursor.ts'
import { batches, createIterations, type TopicSource } from '../follow.ts'
import {
  type AppendOptions,
  type AppendResult,
  type EventLog,
  type FollowOptions,
  KEPT_EMPTY_MS,
  KEPT_ENTRIES,
  KEPT_MS,
  KEPT_ONCE_KEYS,
  type LogEvent,
  LogUnavailableError,
  storedEvent,
} from '../log.ts'
import { PublicationWindow, toLogBatch } from '../window.ts'
import { MemoryDrafts } from './drafts.ts'

export interface MemoryLogOptions {
  /** Returns the time in ms. Defaults to the system clock. */
  now?: () => number
  /** The maximum number of bytes, as JSON, that the publications of all topics may have together. */
  mostBytes?: number
}

/**
 * An event log in the memory of this process. Other processes cannot read it, and its content is lost when the process
 * ends.
 */
export function createMemoryLog({ now = Date.now, mostBytes = MOST_BYTES }: MemoryLogOptions = {}): EventLog {
  const topics = new MemoryTopics(now, mostBytes)
  const drafts = new MemoryDrafts(now)
  const seals = new Map<string, number>()
  const iterations = createIterations()
  let closed = false

  /** Every call starts by deleting expired data, so that no timers are needed. */
  function enter(): void {
    if (closed) throw new LogUnavailableError('The event log is closed.')
    if (!topics.sweepIfDue()) return
    drafts.sweep()
    for (const [seal, until] of seals) if (until <= now()) seals.delete(seal)
  }

  const isSealed = (topic: string, seal: string | undefined) =>
    seal !== undefined && (seals.get(sealOf(topic, seal)) ?? 0) > now()

  async function* followTopic(name: string, { after, ...hooks }: FollowOptions, signal: AbortSignal) {
    const topic = topics.at(name)
    topic.followers += 1
    const source: TopicSource = {
      window: topic.window,
      ready: async () => {},
      read: async (position, limit) => topic.window.read(position, limit),
      refresh: async () => {},
    }
    try {
      yield* batches(source, after === undefined ? null : decodeCursor(after), signal, hooks)
    } finally {
      topic.followers -= 1
    }
  }

  return {
    async append(topic, event, options) {
      enter()
      return isSealed(topic, options?.unlessSealed) ? { type: 'sealed' } : topics.append(topic, event, options)
    },
    async appendDelta(topic, delta, whole, options) {
      enter()
      if (isSealed(topic, options?.unlessSealed)) return null
      const outcome = drafts.grow(delta, whole)
      if (outcome.type === 'held') return encodeCursor(topics.at(topic).window.end)
      const { messageId, partIndex } = delta
      const event = { type: 'MessageTextDelta', messageId, partIndex, ...outcome.appended }
      const result = topics.append(topic, event)
      return result.type === 'appended' ? result.cursor : null
    },
    async replaceText(topic, replacement, whole, options) {
      enter()
      if (isSealed(topic, options?.unlessSealed)) return null
      drafts.set(replacement, whole)
      const result = topics.append(topic, { type: 'MessageTextReplaced', ...replacement })
      return result.type === 'appended' ? result.cursor : null
    },
    async drafts(_topic, messageIds) {
      enter()
      return drafts.read(messageIds)
    },
    async finishDraft(_topic, messageId) {
      enter()
      drafts.finish(messageId)
    },
    async heads(names) {
      enter()
      return names.map((name) => encodeCursor(topics.at(name).window.end))
    },
    async read(topic, after, limit) {
      const position = decodeCursor(after)
      enter()
      const page = topics.at(topic).window.read(position, limit)
      return toLogBatch(page)
    },
    follow(topic, options) {
      if (options.after !== undefined) decodeCursor(options.after)
      return iterations.open(options.signal, (signal) => followTopic(topic, options, signal))
    },
    async expire(topic, seconds) {
      enter()
      topics.expire(topic, seconds)
    },
    async seal(seal, names) {
      enter()
      for (const topic of names) seals.set(sealOf(topic, seal), now() + KEPT_MS)
    },
    async lastOrdinals(names) {
      enter()
      return names.map((name) => topics.find(name)?.ordinal ?? null)
    },
    stats: () => ({ topics: topics.followed(), followers: iterations.count() }),
    healthy: async () => !closed,
    async close() {
      closed = true
      iterations.endAll()
      topics.clear()
    },
  }
}

const sealOf = (topic: string, seal: string) => `${topic} ${seal}`

const SWEEP_INTERVAL_MS = 60_000
const MOST_BYTES = 64 * 1024 * 1024
/**
 * The share of its publications that a topic loses at a time. Several publications are dropped at once, so that
 * appends rarely have to search for the largest topic.
 */
const DROPPED_SHARE = 1 / 8

/** A topic in the memory of this process. */
interface Topic {
  readonly window: PublicationWindow
  readonly onceKeys: Set<string>
  ordinal: number | null
  expiresAt: number
  /** Whether `expire` was called. If so, appends no longer extend the topic's lifetime. */
  ended: boolean
  /** The number of subscribers. While there are any, an expired topic is emptied instead of deleted. */
  followers: number
}

/**
 * The topics of one process. Expired topics are deleted when they are accessed, and by a sweep at most once a
 * minute.
 */
export class MemoryTopics {
  readonly #topics = new Map<string, Topic>()
  readonly #now: () => number
  readonly #mostBytes: number
  /** The total size of the publications of all topics. */
  #bytes = 0
  #sweptAt: number

  constructor(now: () => number, mostBytes: number) {
    this.#now = now
    this.#mostBytes = mostBytes
    this.#sweptAt = now()
  }

  /** Returns the topic, creating it if it does not exist. */
  at(name: string): Topic {
    const existing = this.find(name)
    if (existing) return existing
    const topic: Topic = {
      window: new PublicationWindow({ epoch: newEpoch(), offset: 0 }, KEPT_ENTRIES),
      onceKeys: new Set(),
      ordinal: null,
      expiresAt: this.#now() + KEPT_EMPTY_MS,
      ended: false,
      followers: 0,
    }
    this.#topics.set(name, topic)
    return topic
  }

  find(name: string): Topic | undefined {
    const topic = this.#topics.get(name)
    if (!topic || topic.expiresAt > this.#now()) return topic
    this.#expire(name, topic)
    return this.#topics.get(name)
  }

  append(name: string, event: LogEvent, options: AppendOptions = {}): AppendResult {
    const { once, ordinal, isFirst = false } = options
    const topic = this.at(name)
    const last = topic.ordinal
    if (ordinal !== undefined && ordinal !== (last ?? 0) + 1 && !(last === null && isFirst)) {
      return last !== null && ordinal <= last ? { type: 'duplicate' } : { type: 'missing', after: last }
    }
    if (once !== undefined && !addKey(topic.onceKeys, once)) return { type: 'duplicate' }
    if (ordinal !== undefined) topic.ordinal = ordinal
    const at = this.#now()
    if (!topic.ended) topic.expiresAt = at + KEPT_MS
    const { epoch, offset } = topic.window.end
    const cursor = encodeCursor({ epoch, offset: offset + 1 })
    const json = JSON.stringify(storedEvent(event, options))
    const publication = { cursor, at, event: JSON.parse(json) as LogEvent }
    const published = [{ offset: offset + 1, bytes: Buffer.byteLength(json), publication }]
    // The window's listeners deliver to many subscribers, so their work must not be charged to the requester who
    // appends.
    this.#resize(topic, () => asOwnWork(() => topic.window.push(published)))
    while (this.#bytes > this.#mostBytes && this.#dropFromLargest());
    return { type: 'appended', cursor }
  }

  expire(name: string, seconds: number): void {
    const topic = this.find(name)
    if (!topic) return
    topic.ended = true
    topic.expiresAt = this.#now() + seconds * 1000
  }

  /** Deletes expired topics, at most once a minute. Returns whether a sweep was due. */
  sweepIfDue(): boolean {
    if (this.#now() - this.#sweptAt < SWEEP_INTERVAL_MS) return false
    this.#sweptAt = this.#now()
    for (const [name, topic] of this.#topics) if (topic.expiresAt <= this.#now()) this.#expire(name, topic)
    return true
  }

  /** The number of topics with subscribers. */
  followed(): number {
    return [...this.#topics.values()].filter(({ followers }) => followers > 0).length
  }

  clear(): void {
    this.#topics.clear()
    this.#bytes = 0
  }

  /** Runs a function that adds or removes publications of a topic, and updates the total size. */
  #resize({ window }: Topic, change: () => void): void {
    const before = window.heldBytes
    change()
    this.#bytes += window.heldBytes - before
  }

  /**
   * Drops the oldest publications of the topic with the most bytes, so that many publications in one space do not
   * keep subscribers of other spaces from resuming. Returns false if only the newest publication is left.
   */
  #dropFromLargest(): boolean {
    const largest = [...this.#topics.values()].reduce((one, other) =>
      other.window.heldBytes > one.window.heldBytes ? other : one,
    )
    const { window } = largest
    if (window.held <= 1) return false
    this.#resize(largest, () => window.dropOldest(Math.max(1, Math.floor(window.held * DROPPED_SHARE))))
    return true
  }

  #expire(name: string, topic: Topic): void {
    if (topic.followers === 0) {
      this.#bytes -= topic.window.heldBytes
      this.#topics.delete(name)
      return
    }
    topic.onceKeys.clear()
    topic.ordinal = null
    topic.ended = false
    topic.expiresAt = this.#now() + KEPT_MS
    const { window } = topic
    if (window.end.offset > 0) this.#resize(topic, () => window.restart({ epoch: newEpoch(), offset: 0 }))
  }
}

/** Adds a key, and drops the oldest key if there are too many. Returns false if the key already exists. */
function addKey(keys: Set<string>, key: string): boolean {
  if (keys.has(key)) return false
  keys.add(key)
  if (keys.size > KEPT_ONCE_KEYS) keys.delete(keys.values().next().value!)
  return true
}
