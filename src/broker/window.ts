// The newest publications of a topic, which all its subscribers in this process share, and the lag of each subscriber.
import { SlowConsumerError } from '../lib/errors.ts'
import { encodeCursor, type StreamPosition } from './cursor.ts'
import {
  isForgetting,
  type LogBatch,
  type SharedWindow,
  type SizedPublication,
  type SubscriberPosition,
} from './log.ts'

/** A subscriber that lags by more publications than this is disconnected. */
const MOST_WAITING_ENTRIES = 1000
export const MOST_WAITING_BYTES = 4 * 1024 * 1024
/**
 * The maximum number of publications and bytes in one delivery. A delivery always contains at least one
 * publication.
 */
export const DELIVERY_ENTRIES = 250
const DELIVERY_BYTES = 256 * 1024
/**
 * How many publications a window keeps for subscribers that reconnect, per position and in total. Publications that
 * attached subscribers have yet to receive are not included in these numbers.
 */
const RECENT_ENTRIES_A_SEAT = 8
const MOST_RECENT_ENTRIES = 500
const MOST_RECENT_BYTES = 512 * 1024

/** The publications after a position (possibly none), or a gap with the position at its end. */
export type Page =
  | { type: 'publications'; publications: readonly SizedPublication[] }
  | { type: 'gap'; end: StreamPosition }

/** Converts a page to a delivery. */
export function toLogBatch(page: Page): LogBatch {
  return page.type === 'gap'
    ? { type: 'gap', cursor: encodeCursor(page.end) }
    : { type: 'publications', publications: page.publications.map(({ publication }) => publication) }
}

interface HeldPublication extends SizedPublication {
  /** The total number of bytes pushed into the window, up to and including this publication. */
  end: number
}

/** The position of a subscriber in the window. */
export interface AttachedPosition extends SubscriberPosition {
  offset: number
  /** The total number of bytes pushed into the window, up to this position. */
  end: number
  /**
   * Whether the subscriber has been caught up since it attached or received a gap. A subscriber that was caught up
   * once must keep up.
   */
  live: boolean
  /** Whether the topic was lost or truncated, so that the next delivery is a gap. */
  gap: boolean
  slow: boolean
  /** The offset up to which publications were offered; null if the subscriber can take all publications at any time. */
  offered: number | null
  /** Whether the window keeps publications for this position. */
  waitedFor: boolean
  /** Called once, when publications arrive. */
  wake: (() => void) | null
  onSlow: (() => void) | undefined
}

/**
 * The newest publications of a topic, which all its subscribers in this process share. If `kept` is a number, the
 * window keeps that many publications. If `kept` is `'needed'`, it keeps the publications that some subscriber has
 * yet to receive, and a few older ones.
 */
export class PublicationWindow implements SharedWindow {
  #epoch: string
  #last: number
  #publications: HeldPublication[] = []
  /** Publications before this index count as dropped. They are removed from the array later, in bulk. */
  #start = 0
  #bytes = 0
  readonly #kept: number | 'needed'
  readonly #positions = new Set<AttachedPosition>()
  readonly #listeners = new Set<(change: 'publications' | 'elsewhere') => void>()
  /** The number of positions whose `waitedFor` is true. */
  #waitedFor = 0
  /** The offset of the last event that dropped all publications before it; 0 if there was none. */
  #firstOfTopic = 0

  constructor(end: StreamPosition, kept: number | 'needed') {
    this.#epoch = end.epoch
    this.#last = end.offset
    this.#kept = kept
  }

  /** The position after the last publication. */
  get end(): StreamPosition {
    return { epoch: this.#epoch, offset: this.#last }
  }

  /**
   * Whether the position belongs to this epoch and the window holds, or will receive, every publication after the
   * position.
   */
  covers({ epoch, offset }: StreamPosition): boolean {
    return epoch === this.#epoch && offset <= this.#last && offset >= this.#last - this.held
  }

  /** Returns the publications after a position, at most `limit`, or a gap if the window does not cover the position. */
  read(after: StreamPosition, limit: number): Page {
    if (!this.covers(after)) return { type: 'gap', end: this.end }
    const from = this.#publications.length - (this.#last - after.offset)
    return { type: 'publications', publications: this.#publications.slice(from, from + limit) }
  }

  /**
   * Attaches a subscriber at a position; returns null if the window does not cover it. The position must be
   * released with `detach`.
   */
  attach(position: StreamPosition, onSlow?: () => void): AttachedPosition | null {
    if (!this.covers(position)) return null
    const { offset } = position
    const state = { live: false, gap: false, slow: false, offered: null, waitedFor: false }
    const attached: AttachedPosition = { offset, end: this.#endAt(offset), ...state, wake: null, onSlow }
    this.#positions.add(attached)
    this.#setWaitedFor(attached, offset < this.#last)
    return attached
  }

  detach(position: AttachedPosition): void {
    this.#positions.delete(position)
    this.#setWaitedFor(position, false)
  }

  /**
   * Advances a position past publications that the subscriber received from the log. The window may not yet hold
   * all of these publications.
   */
  advance(position: AttachedPosition, offset: number): void {
    if (offset <= position.offset) return
    position.offset = offset
    position.end = this.#endAt(offset)
    if (offset >= this.#last) this.#setWaitedFor(position, false)
  }

  cursorOf({ offset }: SubscriberPosition): string {
    return encodeCursor({ epoch: this.#epoch, offset })
  }

  offer(position: AttachedPosition, offset: number | null): void {
    position.offered = offset
  }

  /** Appends the next publications and wakes waiting subscribers. */
  push(publications: readonly SizedPublication[]): void {
    for (const { offset, bytes, publication } of publications) {
      if (isForgetting(publication.event)) {
        this.#clear()
        this.#firstOfTopic = offset
      }
      this.#bytes += bytes
      this.#publications.push({ offset, bytes, publication, end: this.#bytes })
      this.#last = offset
    }
    for (const position of this.#positions) this.#checkLag(position)
    this.#trim()
    this.#notify('publications')
  }

  /**
   * Adds older publications that were read from the log. Publications that neither overlap with the window nor end
   * where it begins are ignored.
   */
  prepend({ epoch }: StreamPosition, page: Page): void {
    if (this.#kept !== 'needed' || page.type === 'gap' || epoch !== this.#epoch) return
    const older = page.publications
    const first = this.#last - this.held + 1
    const isBefore = (offset: number) => offset < first && offset >= this.#firstOfTopic
    const before = older.filter(({ offset }) => isBefore(offset)).slice(-MOST_RECENT_ENTRIES)
    if (before.at(-1)?.offset !== first - 1) return
    let end = this.#endAt(first - 1)
    const held: HeldPublication[] = []
    for (const one of before.toReversed()) {
      held.push({ ...one, end })
      end -= one.bytes
    }
    this.#publications = [...held.reverse(), ...this.#publications.slice(this.#start)]
    this.#start = 0
  }

  listen(listener: (change: 'publications' | 'elsewhere') => void): () => void {
    this.#listeners.add(listener)
    return () => void this.#listeners.delete(listener)
  }

  /** Continues in another epoch. Every position gets a gap. */
  restart(end: StreamPosition): void {
    this.#epoch = end.epoch
    this.#firstOfTopic = 0
    this.jump(end.offset)
    for (const position of this.#positions) {
      position.gap = true
      position.offset = end.offset
      position.end = this.#bytes
      position.live = false
    }
    this.#notify('elsewhere')
  }

  /**
   * Continues after `offset`, without the publications up to `offset`. Subscribers with lower positions must read
   * these publications from the log.
   */
  jump(offset: number): void {
    this.#clear()
    this.#last = offset
    for (const position of this.#positions) {
      this.#setWaitedFor(position, false)
      wakeUp(position)
    }
    this.#notify('elsewhere')
  }

  /**
   * Returns the next delivery for a position. Returns null if there are no new publications, and `behind` if the
   * window no longer covers the position.
   * @throws SlowConsumerError if the subscriber lags too far behind
   */
  take(position: AttachedPosition): LogBatch | 'behind' | null {
    if (position.slow) throw new SlowConsumerError()
    if (position.gap) {
      position.gap = false
      return toLogBatch({ type: 'gap', end: { epoch: this.#epoch, offset: position.offset } })
    }
    if (position.offset >= this.#last) {
      position.live = true
      return null
    }
    const publications = this.publicationsAfter(position)
    if (publications === null) return 'behind'
    this.advance(position, publications.at(-1)!.offset)
    return toLogBatch({ type: 'publications', publications })
  }

  isLost(position: SubscriberPosition & Partial<AttachedPosition>): boolean {
    if (position.slow || position.gap) return true
    return this.#publications.length - Math.max(this.#last - position.offset, 0) < this.#start
  }

  publicationsAfter(position: SubscriberPosition & Partial<AttachedPosition>): readonly SizedPublication[] | null {
    if (this.isLost(position)) return null
    const from = this.#publications.length - Math.max(this.#last - position.offset, 0)
    const end = this.#publications[from] ? this.#publications[from].end - this.#publications[from].bytes : this.#bytes
    let to = Math.min(from + DELIVERY_ENTRIES, this.#publications.length)
    while (to > from + 1 && this.#publications[to - 1]!.end - end > DELIVERY_BYTES) to -= 1
    return this.#publications.slice(from, to)
  }

  /** The number of publications in the window. */
  get held(): number {
    return this.#publications.length - this.#start
  }

  /** The total size of the publications in the window, in bytes. */
  get heldBytes(): number {
    const first = this.#publications[this.#start]
    return first ? this.#bytes - (first.end - first.bytes) : 0
  }

  /** Drops the oldest `count` publications. Subscribers that have yet to receive them get a gap. */
  dropOldest(count: number): void {
    this.#dropBefore(this.#start + Math.min(count, this.held))
  }

  /**
   * Returns the total number of bytes pushed into the window up to `offset`. If the next publication has not
   * arrived yet or was dropped, returns the current total.
   */
  #endAt(offset: number): number {
    const next = this.#publications[this.#publications.length - (this.#last - offset)]
    return next ? next.end - next.bytes : this.#bytes
  }

  #isFarBehind(position: AttachedPosition): boolean {
    const waiting = (position.offered ?? this.#last) - position.offset
    return waiting > MOST_WAITING_ENTRIES || this.#bytes - position.end > MOST_WAITING_BYTES
  }

  /**
   * Checks a subscriber's lag against the limit. If the lag exceeds the limit, a subscriber that was caught up
   * before is disconnected. Any other subscriber must read from the log.
   */
  #checkLag(position: AttachedPosition): void {
    const farBehind = this.#isFarBehind(position)
    if (farBehind && position.live && !position.slow) {
      position.slow = true
      position.onSlow?.()
    }
    this.#setWaitedFor(position, position.offset < this.#last && !farBehind)
    wakeUp(position)
  }

  #setWaitedFor(position: AttachedPosition, waitedFor: boolean): void {
    if (position.waitedFor === waitedFor) return
    position.waitedFor = waitedFor
    this.#waitedFor += waitedFor ? 1 : -1
  }

  /** Drops publications that are neither recent nor needed. */
  #trim(): void {
    let first = this.#last - this.held + 1
    const keptFrom =
      this.#kept === 'needed' ? Math.min(this.#neededFrom(), this.#recentFrom()) : this.#last - this.#kept + 1
    first = Math.max(first, keptFrom)
    this.#dropBefore(this.#publications.length - (this.#last - first + 1))
  }

  #dropBefore(index: number): void {
    this.#start = index
    if (this.#start * 2 > this.#publications.length) {
      this.#publications = this.#publications.slice(this.#start)
      this.#start = 0
    }
  }

  #neededFrom(): number {
    let needed = this.#last + 1
    if (this.#waitedFor > 0)
      for (const { waitedFor, offset } of this.#positions) if (waitedFor) needed = Math.min(needed, offset + 1)
    return needed
  }

  #recentFrom(): number {
    const most = Math.min(this.#positions.size * RECENT_ENTRIES_A_SEAT, MOST_RECENT_ENTRIES, this.held)
    let index = this.#publications.length - most
    while (index < this.#publications.length && this.#bytes - this.#publications[index]!.end > MOST_RECENT_BYTES)
      index += 1
    return this.#last - (this.#publications.length - index) + 1
  }

  #notify(change: 'publications' | 'elsewhere'): void {
    for (const listener of [...this.#listeners]) listener(change)
  }

  #clear(): void {
    this.#publications = []
    this.#start = 0
  }
}

function wakeUp(position: AttachedPosition): void {
  const { wake } = position
  position.wake = null
  wake?.()
}
