import { encodeCursor, newEpoch } from './cursor.ts'
import { EntryWindow } from './entry-window.ts'
import {
  type AppendOptions,
  type AppendResult,
  KEPT_EMPTY_MS,
  KEPT_ENTRIES,
  KEPT_MS,
  KEPT_ONCE_KEYS,
  type LogEvent,
} from './event-log.ts'

const SWEEP_INTERVAL_MS = 60_000

/** A topic in this process. */
interface Topic {
  readonly window: EntryWindow
  readonly onceKeys: Set<string>
  ordinal: number | null
  expiresAt: number
  /** `expire` was called: appends no longer prolong the topic. */
  ended: boolean
  /** A topic with subscribers is not deleted when it expires, but emptied. */
  followers: number
}

/** The topics of one process. Expired topics are deleted on access, and by a sweep at most once a minute. */
export class InProcessTopics {
  readonly #topics = new Map<string, Topic>()
  readonly #now: () => number
  #sweptAt: number

  constructor(now: () => number) {
    this.#now = now
    this.#sweptAt = now()
  }

  /** Returns the topic; creates it if it does not exist. */
  at(name: string): Topic {
    const known = this.find(name)
    if (known) return known
    const topic: Topic = {
      window: new EntryWindow({ epoch: newEpoch(), n: 0 }, KEPT_ENTRIES),
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
    this.#forget(name, topic)
    return this.#topics.get(name)
  }

  append(name: string, event: LogEvent, { once, ordinal }: AppendOptions = {}): AppendResult {
    const topic = this.at(name)
    if (ordinal !== undefined && topic.ordinal !== null && ordinal !== topic.ordinal + 1) {
      return ordinal <= topic.ordinal ? { type: 'duplicate' } : { type: 'missing', after: topic.ordinal }
    }
    if (once !== undefined && !remember(topic.onceKeys, once)) return { type: 'duplicate' }
    if (ordinal !== undefined) topic.ordinal = ordinal
    const at = this.#now()
    if (!topic.ended) topic.expiresAt = at + KEPT_MS
    const { epoch, n } = topic.window.end
    const cursor = encodeCursor({ epoch, n: n + 1 })
    const json = JSON.stringify(event)
    const entry = { cursor, at, event: JSON.parse(json) as LogEvent }
    topic.window.push([{ n: n + 1, bytes: Buffer.byteLength(json), entry }])
    return { type: 'appended', cursor }
  }

  expire(name: string, seconds: number): void {
    const topic = this.find(name)
    if (!topic) return
    topic.ended = true
    topic.expiresAt = this.#now() + seconds * 1000
  }

  /** Deletes expired topics, at most once a minute. Returns whether it did. */
  sweepIfDue(): boolean {
    if (this.#now() - this.#sweptAt < SWEEP_INTERVAL_MS) return false
    this.#sweptAt = this.#now()
    for (const [name, topic] of this.#topics) if (topic.expiresAt <= this.#now()) this.#forget(name, topic)
    return true
  }

  /** The number of topics with subscribers. */
  followed(): number {
    return [...this.#topics.values()].filter(({ followers }) => followers > 0).length
  }

  clear(): void {
    this.#topics.clear()
  }

  #forget(name: string, topic: Topic): void {
    if (topic.followers === 0) {
      this.#topics.delete(name)
      return
    }
    topic.onceKeys.clear()
    topic.ordinal = null
    topic.ended = false
    topic.expiresAt = this.#now() + KEPT_MS
    if (topic.window.end.n > 0) topic.window.restart({ epoch: newEpoch(), n: 0 })
  }
}

/** Adds a key, dropping the oldest over the limit. Returns false if the key is already there. */
function remember(keys: Set<string>, key: string): boolean {
  if (keys.has(key)) return false
  keys.add(key)
  if (keys.size > KEPT_ONCE_KEYS) keys.delete(keys.values().next().value!)
  return true
}
