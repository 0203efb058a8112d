import { orNullIfAborted } from '../lib/async.ts'
import { encodeCursor, type Position } from './cursor.ts'
import { EntryWindow, type Page } from './entry-window.ts'
import type { LogEvent, SizedEntry } from './event-log.ts'
import type { TopicSource } from './following.ts'
import type { RedisChannels } from './redis-channels.ts'
import type { RedisPage, RedisReading } from './redis-reading.ts'

/** How many entries one refresh of the window reads. If more are missing, subscribers read them from the log. */
const REFRESH_ENTRIES = 250

/** How many batches are remembered whose wake-up message may still arrive. */
const MOST_BATCHES = 1000

/** The wake-up message for an appended batch. Events of a large batch are omitted. */
interface DoorbellRing {
  epoch: string
  first: number
  last: number
  at: number
  batch: string
  /** The batch of the entry before `first`. */
  before: string
  bytes?: number[]
  events?: LogEvent[]
}

/**
 * Receives a topic once for all its subscribers in this process. The stream in Redis is the source of truth.
 * A wake-up message only says that entries were appended. Its entries are used if they continue the window:
 * they start at the next offset, and follow the last known batch. Otherwise, and after each reconnect, the
 * reader reads the stream from its position; that read also detects that Redis lost writes and assigned
 * offsets a second time.
 */
export class RedisTopicReader implements TopicSource {
  readonly #topic: string
  readonly #channels: RedisChannels
  readonly #reading: RedisReading
  readonly #stop = new AbortController()
  readonly #started: Promise<void>
  /** Reads in progress, so that subscribers at the same position share one. */
  readonly #pages = new Map<string, Promise<Page | null>>()
  #window: EntryWindow | null = null
  /** The batch of the window's last entry. */
  #batch = ''
  /** The last batches, to recognise a wake-up message that arrives after its entries were read. */
  readonly #batches = new Set<string>()
  #refreshing: Promise<void> | null = null
  /** A wake-up message arrived or may have been missed while the window was being created or refreshed. */
  #rungMeanwhile = false

  constructor(topic: string, channel: string, channels: RedisChannels, reading: RedisReading) {
    this.#topic = topic
    this.#channels = channels
    this.#reading = reading
    this.#started = this.#start(channel)
    this.#started.catch(() => {})
  }

  get window(): EntryWindow {
    if (this.#window === null) throw new Error('the topic reader is not ready')
    return this.#window
  }

  async standing(signal: AbortSignal): Promise<void> {
    await orNullIfAborted(signal, this.#started)
  }

  read(after: Position, limit: number, signal: AbortSignal): Promise<Page | null> {
    const key = `${after.epoch}.${after.n}.${limit}`
    const known = this.#pages.get(key)
    const page = known ?? this.#retryWhileAway(() => this.#reading.page(this.#topic, after, limit))
    if (!known) {
      this.#pages.set(key, page)
      void page.finally(() => this.#pages.delete(key)).catch(() => {})
    }
    return orNullIfAborted(signal, page)
  }

  async refresh(signal: AbortSignal): Promise<void> {
    await orNullIfAborted(signal, this.catchUp())
  }

  /**
   * Reads the stream from the end of the window: after a reconnect, or when a wake-up message does not
   * continue the window.
   */
  catchUp(): Promise<void> {
    this.#rungMeanwhile = true
    if (this.#window === null) return this.#started
    this.#refreshing ??= this.#refresh(this.#window).finally(() => {
      this.#refreshing = null
    })
    return this.#refreshing
  }

  stop(): void {
    this.#stop.abort()
  }

  async #start(channel: string): Promise<void> {
    const unsubscribe = await this.#channels.subscribe(channel, (ring) => this.#hear(ring as DoorbellRing))
    if (this.#stop.signal.aborted) return unsubscribe()
    this.#stop.signal.addEventListener('abort', unsubscribe, { once: true })
    this.#rungMeanwhile = false
    const head = await this.#retryWhileAway(() => this.#reading.head(this.#topic))
    if (head === null) return
    this.#window = new EntryWindow(head, 'needed')
    this.#know([head.batch])
    if (this.#rungMeanwhile) void this.catchUp()
  }

  #hear(ring: DoorbellRing): void {
    if (this.#window === null) {
      this.#rungMeanwhile = true
      return
    }
    const { epoch, n } = this.#window.end
    if (ring.epoch === epoch && ring.last <= n && this.#batches.has(ring.batch)) return
    const entries = entriesOf(ring)
    const followsOn = ring.epoch === epoch && ring.first === n + 1 && ring.before === this.#batch
    if (!followsOn || entries === null) void this.catchUp()
    else {
      this.#know([ring.batch])
      this.#window.push(entries)
    }
  }

  async #refresh(window: EntryWindow): Promise<void> {
    while (this.#rungMeanwhile) {
      this.#rungMeanwhile = false
      const end = { ...window.end, batch: this.#batch }
      const page = await this.#retryWhileAway(() => this.#reading.page(this.#topic, end, REFRESH_ENTRIES))
      if (page === null) return
      if (page.type === 'gap') {
        window.restart(page.end)
        this.#know([page.at.batch])
      } else if (page.entries.length < REFRESH_ENTRIES) this.#take(window, page)
      else await this.#jumpToEnd(window)
    }
  }

  /** Skips entries that a wake-up message has delivered meanwhile. */
  #take(window: EntryWindow, { entries, batches }: RedisPage & { type: 'entries' }): void {
    const { n } = window.end
    const fresh = entries.filter((entry) => entry.n > n)
    if (fresh.length === 0) return
    this.#know(batches)
    window.push(fresh)
  }

  async #jumpToEnd(window: EntryWindow): Promise<void> {
    const head = await this.#retryWhileAway(() => this.#reading.head(this.#topic))
    if (head?.epoch === window.end.epoch && head.n > window.end.n) {
      window.jump(head.n)
      this.#know([head.batch])
    }
    this.#rungMeanwhile = true
  }

  /** The last element is the batch of the window's last entry. */
  #know(batches: string[]): void {
    for (const batch of batches) this.#batches.add(batch)
    this.#batch = batches.at(-1) ?? this.#batch
    for (const batch of this.#batches) {
      if (this.#batches.size <= MOST_BATCHES) return
      this.#batches.delete(batch)
    }
  }

  #retryWhileAway<T>(ask: () => Promise<T>): Promise<T | null> {
    return this.#reading.retryWhileAway(ask, this.#stop.signal)
  }
}

/** Returns null for a message without events. */
function entriesOf({ epoch, first, at, bytes, events }: DoorbellRing): SizedEntry[] | null {
  if (!events || !bytes) return null
  return events.map((event, index) => {
    const n = first + index
    return { n, bytes: bytes[index]!, entry: { cursor: encodeCursor({ epoch, n }), at, event } }
  })
}
