import { orNullIfAborted } from '../lib/async.ts'
import { encodeCursor, type Position } from './cursor.ts'
import { EntryWindow, type Page } from './entry-window.ts'
import type { LogEvent, SizedEntry } from './event-log.ts'
import type { TopicSource } from './following.ts'
import type { RedisChannels } from './redis-channels.ts'
import type { RedisPage, RedisReading } from './redis-reading.ts'

/** How much is read at a time to bring the window up to date. Where more is missing, followers read it for themselves. */
const REFRESH_ENTRIES = 250

/** Batches that were read and may still ring. */
const MOST_BATCHES = 1000

/** What rings when a batch was appended. A large batch is not in it. */
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
 * Receives a topic once for all its followers in this process. The stream in Redis is the truth; the doorbell only wakes,
 * and brings what it announces along where that follows on from what is known: the next number, after the batch that was
 * the last one. Otherwise, and after each reconnect, the stream is read on from there; where Redis went back in time and
 * counts some numbers again, that read finds out.
 */
export class RedisTopicReader implements TopicSource {
  readonly #topic: string
  readonly #channels: RedisChannels
  readonly #reading: RedisReading
  readonly #stop = new AbortController()
  readonly #started: Promise<void>
  /** Pages being read, so that followers at one place share one read. */
  readonly #pages = new Map<string, Promise<Page | null>>()
  #window: EntryWindow | null = null
  /** The batch of the window's last entry. */
  #batch = ''
  /** The last batches, so that a ring that comes after its entries were read is known. */
  readonly #batches = new Set<string>()
  #refreshing: Promise<void> | null = null
  /** Something came, or may have been missed, while the window was being made or brought up to date. */
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

  /** Reads on from what is known: after a reconnect, or when a doorbell does not follow on. */
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

  /** What came by a doorbell meanwhile is left out. */
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

  /** The last of these is the batch of the window's end. */
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

/** Null for a ring that only tells numbers. */
function entriesOf({ epoch, first, at, bytes, events }: DoorbellRing): SizedEntry[] | null {
  if (!events || !bytes) return null
  return events.map((event, index) => {
    const n = first + index
    return { n, bytes: bytes[index]!, entry: { cursor: encodeCursor({ epoch, n }), at, event } }
  })
}
