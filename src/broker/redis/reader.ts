// Receives a topic from Redis once for all its subscribers in this process.
import { orNullIfAborted, sleep } from '../../lib/async.ts'
import { encodeCursor, newEpoch, type StreamPosition } from '../cursor.ts'
import type { TopicSource } from '../follow.ts'
import { type LogEvent, LogUnavailableError, type SizedPublication } from '../log.ts'
import { type Page, PublicationWindow } from '../window.ts'
import type { RedisChannels } from './channels.ts'
import type { RedisConnection } from './connection.ts'
import type { Keys, ScriptedRedis } from './scripts.ts'

/**
 * How many publications one refresh of the window reads. If more are missing, the window skips to the end of the
 * topic, and subscribers read the missing publications from the log.
 */
const REFRESH_ENTRIES = 250

/** How many batches are remembered while their wake-up message may still arrive. */
const MOST_BATCHES = 1000

/** The wake-up message for an appended batch. The events of a large batch are omitted. */
interface WakeUpMessage {
  epoch: string
  first: number
  last: number
  at: number
  batch: string
  /** The batch that contains the publication before `first`. */
  before: string
  bytes?: number[]
  events?: LogEvent[]
}

/**
 * Receives a topic once for all its subscribers in this process. The stream in Redis is the source of truth. A
 * wake-up message reports that publications were appended, and usually contains them. The reader uses these
 * publications if they start at the next offset and follow the last known batch. If they do not, and after each
 * reconnect, the reader reads the stream from its position. This read also detects whether Redis has lost writes
 * and reused their offsets.
 */
export class RedisTopicReader implements TopicSource {
  readonly #topic: string
  readonly #channels: RedisChannels
  readonly #reading: RedisReading
  readonly #stop = new AbortController()
  readonly #started: Promise<void>
  /** Reads in progress. Subscribers at the same position share a read. */
  readonly #pages = new Map<string, Promise<Page | null>>()
  #window: PublicationWindow | null = null
  /** The batch of the window's last publication. */
  #batch = ''
  /** The last batches. They are used to recognise wake-up messages that arrive after their publications were read. */
  readonly #batches = new Set<string>()
  #refreshing: Promise<void> | null = null
  /** Whether a wake-up message arrived, or may have been lost, while the window was being created or refreshed. */
  #hasMissedWakeUp = false

  constructor(topic: string, channel: string, channels: RedisChannels, reading: RedisReading) {
    this.#topic = topic
    this.#channels = channels
    this.#reading = reading
    this.#started = this.#start(channel)
    this.#started.catch(() => {})
  }

  get window(): PublicationWindow {
    if (this.#window === null) throw new Error('the reader of the event logs is not ready')
    return this.#window
  }

  async ready(signal: AbortSignal): Promise<void> {
    await orNullIfAborted(signal, this.#started)
  }

  read(after: StreamPosition, limit: number, signal: AbortSignal): Promise<Page | null> {
    const key = `${after.epoch}.${after.offset}.${limit}`
    const pending = this.#pages.get(key)
    const page = pending ?? this.#retryWhileAway(() => this.#reading.page(this.#topic, after, limit))
    if (!pending) {
      this.#pages.set(key, page)
      void page.finally(() => this.#pages.delete(key)).catch(() => {})
    }
    return orNullIfAborted(signal, page)
  }

  async refresh(signal: AbortSignal): Promise<void> {
    await orNullIfAborted(signal, this.catchUp())
  }

  /**
   * Reads the stream from the end of the window, after a reconnect or if a wake-up message does not continue the
   * window.
   */
  catchUp(): Promise<void> {
    this.#hasMissedWakeUp = true
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
    const unsubscribe = await this.#channels.subscribe(channel, (message) => this.#onWakeUp(message as WakeUpMessage))
    if (this.#stop.signal.aborted) return unsubscribe()
    this.#stop.signal.addEventListener('abort', unsubscribe, { once: true })
    this.#hasMissedWakeUp = false
    const head = await this.#retryWhileAway(() => this.#reading.head(this.#topic))
    if (head === null) return
    this.#window = new PublicationWindow(head, 'needed')
    this.#rememberBatches([head.batch])
    if (this.#hasMissedWakeUp) void this.catchUp()
  }

  #onWakeUp(message: WakeUpMessage): void {
    if (this.#window === null) {
      this.#hasMissedWakeUp = true
      return
    }
    const { epoch, offset } = this.#window.end
    if (message.epoch === epoch && message.last <= offset && this.#batches.has(message.batch)) return
    const publications = publicationsOf(message)
    const followsOn = message.epoch === epoch && message.first === offset + 1 && message.before === this.#batch
    if (!followsOn || publications === null) void this.catchUp()
    else {
      this.#rememberBatches([message.batch])
      this.#window.push(publications)
    }
  }

  async #refresh(window: PublicationWindow): Promise<void> {
    while (this.#hasMissedWakeUp) {
      this.#hasMissedWakeUp = false
      const end = { ...window.end, batch: this.#batch }
      const page = await this.#retryWhileAway(() => this.#reading.page(this.#topic, end, REFRESH_ENTRIES))
      if (page === null) return
      if (page.type === 'gap') {
        window.restart(page.end)
        this.#rememberBatches([page.at.batch])
      } else if (page.publications.length < REFRESH_ENTRIES) this.#pushNew(window, page)
      else await this.#jumpToEnd(window)
    }
  }

  /** Adds a page to the window. Leaves out publications that a wake-up message has added in the meantime. */
  #pushNew(window: PublicationWindow, { publications, batches }: RedisPage & { type: 'publications' }): void {
    const { offset } = window.end
    const fresh = publications.filter((publication) => publication.offset > offset)
    if (fresh.length === 0) return
    this.#rememberBatches(batches)
    window.push(fresh)
  }

  async #jumpToEnd(window: PublicationWindow): Promise<void> {
    const head = await this.#retryWhileAway(() => this.#reading.head(this.#topic))
    if (head?.epoch === window.end.epoch && head.offset > window.end.offset) {
      window.jump(head.offset)
      this.#rememberBatches([head.batch])
    }
    this.#hasMissedWakeUp = true
  }

  /** Remembers batches in order. The last one contains the window's last publication. */
  #rememberBatches(batches: string[]): void {
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

/** Returns the publications in a wake-up message; null if the message contains no events. */
function publicationsOf({ epoch, first, at, bytes, events }: WakeUpMessage): SizedPublication[] | null {
  if (!events || !bytes) return null
  return events.map((event, index) => {
    const offset = first + index
    return { offset, bytes: bytes[index]!, publication: { cursor: encodeCursor({ epoch, offset }), at, event } }
  })
}

const PAUSE_MS = 1000

/** A position, and the batch that wrote the publication at the position; '' before the first publication. */
export type PositionWithBatch = StreamPosition & { batch: string }

/** A page, the position at its end, and the batches of its publications. */
export type RedisPage = Page & { at: PositionWithBatch; batches: string[] }

export interface RedisReading {
  /**
   * Returns the position of the topic's last publication. Creates the topic if it does not exist.
   * @throws LogUnavailableError
   */
  head(topic: string): Promise<PositionWithBatch>
  /**
   * Returns the publications after a position, at most `limit`, or a gap. If Redis has the publication of another
   * batch than expected at the position, Redis has lost confirmed writes, and the topic begins a new epoch.
   * @throws LogUnavailableError
   */
  page(topic: string, after: StreamPosition | PositionWithBatch, limit: number): Promise<RedisPage>
  /** Retries `ask` until Redis responds; returns null when the signal aborts. */
  retryWhileAway<T>(ask: () => Promise<T>, signal: AbortSignal): Promise<T | null>
}

export function createRedisReading(connection: RedisConnection, redis: ScriptedRedis, keys: Keys): RedisReading {
  return {
    async head(topic) {
      const [epoch, last, batch] = await connection.call(() => redis.logRead(...keys.topic(topic), newEpoch()))
      return { epoch, offset: Number(last), batch }
    },
    async page(topic, after, limit) {
      const batch = 'batch' in after ? after.batch : ''
      const [epoch, last, lastBatch, publications] = await connection.call(() =>
        redis.logRead(...keys.topic(topic), newEpoch(), after.epoch, after.offset, limit, batch),
      )
      if (!publications) {
        const end = { epoch, offset: Number(last) }
        return { type: 'gap', end, at: { ...end, batch: lastBatch }, batches: [] }
      }
      const found = publications.map(([id, fields]) => publicationOf(epoch, id, fields))
      const batches = publications.map(([, fields]) => fields[5]!)
      const at = { epoch, offset: found.at(-1)?.offset ?? after.offset, batch: batches.at(-1) ?? batch }
      return { type: 'publications', publications: found, at, batches: [...new Set(batches)] }
    },
    async retryWhileAway(ask, signal) {
      while (!signal.aborted) {
        try {
          return await ask()
        } catch (error) {
          if (!(error instanceof LogUnavailableError)) throw error
          await sleep(PAUSE_MS, signal)
        }
      }
      return null
    },
  }
}

/** An entry of the stream has the fields `t` (time), `e` (event) and `b` (batch). */
function publicationOf(epoch: string, id: string, [, at, , json]: string[]): SizedPublication {
  const offset = Number.parseInt(id, 10)
  const event = JSON.parse(json!) as LogEvent
  return {
    offset,
    bytes: Buffer.byteLength(json!),
    publication: { cursor: encodeCursor({ epoch, offset }), at: Number(at), event },
  }
}
