import { encodeCursor, type Position } from './cursor.ts'
import { type Delivery, type LiveSeat, type LiveWindow, type SizedEntry, SlowConsumerError } from './event-log.ts'

/** A consumer that lags by more is disconnected. */
export const MOST_WAITING_ENTRIES = 1000
export const MOST_WAITING_BYTES = 4 * 1024 * 1024
/** The maximum number of entries and bytes of one delivery. A delivery always contains at least one entry. */
export const DELIVERY_ENTRIES = 250
const DELIVERY_BYTES = 256 * 1024
/**
 * How many entries a window keeps beyond those that are needed: per position, and at most. They serve
 * subscribers that reconnect.
 */
const RECENT_ENTRIES_A_SEAT = 8
const MOST_RECENT_ENTRIES = 500
const MOST_RECENT_BYTES = 512 * 1024

/** The content after a position: entries, perhaps none; or a gap with its end. */
export type Page = { type: 'entries'; entries: readonly SizedEntry[] } | { type: 'gap'; end: Position }

/** Converts a page to a delivery. */
export function deliveryOf(page: Page): Delivery {
  return page.type === 'gap'
    ? { type: 'gap', cursor: encodeCursor(page.end) }
    : { type: 'entries', entries: page.entries.map(({ entry }) => entry) }
}

interface HeldEntry extends SizedEntry {
  /** The total of bytes pushed into the window up to and including this entry. */
  end: number
}

/** The position of a subscriber in the window. */
export interface Seat extends LiveSeat {
  n: number
  /** The total of bytes pushed into the window up to this position. */
  end: number
  /** It was caught up since it attached or met a gap. From then on it must keep up. */
  live: boolean
  /** The topic was lost or truncated: the next delivery is a gap. */
  gap: boolean
  slow: boolean
  /** The offset up to which entries were offered; null if the subscriber can take all entries at any time. */
  offered: number | null
  /** The window keeps entries for this position. */
  waitedFor: boolean
  /** Called once, when entries arrive. */
  wake: (() => void) | null
  onSlow: (() => void) | undefined
}

/**
 * The newest entries of a topic, held once for all its subscribers in this process. It keeps the last `kept`
 * entries; with `'needed'` it keeps the entries that its subscribers have not taken yet, and a few before
 * them.
 */
export class EntryWindow implements LiveWindow {
  #epoch: string
  #last: number
  #held: HeldEntry[] = []
  /** Entries before this index are dropped; they are removed from the array in bulk. */
  #start = 0
  #bytes = 0
  readonly #kept: number | 'needed'
  readonly #seats = new Set<Seat>()
  readonly #listeners = new Set<(change: 'entries' | 'elsewhere') => void>()
  /** The number of positions with `waitedFor`. */
  #waitedFor = 0

  constructor(end: Position, kept: number | 'needed') {
    this.#epoch = end.epoch
    this.#last = end.n
    this.#kept = kept
  }

  /** The position after the last entry. */
  get end(): Position {
    return { epoch: this.#epoch, n: this.#last }
  }

  /** Whether the position is of this epoch, and the window holds or will receive every entry after it. */
  covers({ epoch, n }: Position): boolean {
    return epoch === this.#epoch && n <= this.#last && n >= this.#last - this.held
  }

  /** Returns the entries after a position, at most `limit`; a gap if the window does not cover the position. */
  read(after: Position, limit: number): Page {
    if (!this.covers(after)) return { type: 'gap', end: this.end }
    const from = this.#held.length - (this.#last - after.n)
    return { type: 'entries', entries: this.#held.slice(from, from + limit) }
  }

  /** Attaches a subscriber at a position; returns null if the window does not cover it. Release it with `leave`. */
  sit(position: Position, onSlow?: () => void): Seat | null {
    if (!this.covers(position)) return null
    const { n } = position
    const state = { live: false, gap: false, slow: false, offered: null, waitedFor: false }
    const seat: Seat = { n, end: this.#endAt(n), ...state, wake: null, onSlow }
    this.#seats.add(seat)
    this.#await(seat, n < this.#last)
    return seat
  }

  leave(seat: Seat): void {
    this.#seats.delete(seat)
    this.#await(seat, false)
  }

  /**
   * Advances a position past entries that the subscriber got from the log, even to an entry that the window
   * does not hold yet.
   */
  skip(seat: Seat, n: number): void {
    if (n <= seat.n) return
    seat.n = n
    seat.end = this.#endAt(n)
    if (n >= this.#last) this.#await(seat, false)
  }

  offer(seat: Seat, n: number | null): void {
    seat.offered = n
  }

  /** Appends the next entries and wakes waiting subscribers. */
  push(entries: readonly SizedEntry[]): void {
    for (const { n, bytes, entry } of entries) {
      this.#bytes += bytes
      this.#held.push({ n, bytes, entry, end: this.#bytes })
      this.#last = n
    }
    for (const seat of this.#seats) this.#notice(seat)
    this.#trim()
    this.#tell('entries')
  }

  /** Adds older entries that were read from the log, if they end where the window begins or overlap with it. */
  adopt({ epoch }: Position, page: Page): void {
    if (this.#kept !== 'needed' || page.type === 'gap' || epoch !== this.#epoch) return
    const older = page.entries
    const first = this.#last - this.held + 1
    const before = older.filter(({ n }) => n < first).slice(-MOST_RECENT_ENTRIES)
    if (before.at(-1)?.n !== first - 1) return
    let end = this.#endAt(first - 1)
    const held: HeldEntry[] = []
    for (const one of before.toReversed()) {
      held.push({ ...one, end })
      end -= one.bytes
    }
    this.#held = [...held.reverse(), ...this.#held.slice(this.#start)]
    this.#start = 0
  }

  listen(listener: (change: 'entries' | 'elsewhere') => void): () => void {
    this.#listeners.add(listener)
    return () => void this.#listeners.delete(listener)
  }

  /** The topic continues in another epoch: every position gets a gap. */
  restart(end: Position): void {
    this.#epoch = end.epoch
    this.jump(end.n)
    for (const seat of this.#seats) {
      seat.gap = true
      seat.n = end.n
      seat.end = this.#bytes
      seat.live = false
    }
    this.#tell('elsewhere')
  }

  /**
   * Continues after offset `n` without the entries before it. Subscribers with lower positions must read
   * those from the log.
   */
  jump(n: number): void {
    this.#clear()
    this.#last = n
    for (const seat of this.#seats) {
      this.#await(seat, false)
      wakeUp(seat)
    }
    this.#tell('elsewhere')
  }

  /**
   * Returns the next delivery for a position; null if there are no new entries, `behind` if the window no
   * longer covers the position.
   * @throws SlowConsumerError if the subscriber lags too far behind
   */
  take(seat: Seat): Delivery | 'behind' | null {
    if (seat.slow) throw new SlowConsumerError()
    if (seat.gap) {
      seat.gap = false
      return deliveryOf({ type: 'gap', end: { epoch: this.#epoch, n: seat.n } })
    }
    if (seat.n >= this.#last) {
      seat.live = true
      return null
    }
    const entries = this.ahead(seat)
    if (entries === null) return 'behind'
    this.skip(seat, entries.at(-1)!.n)
    return deliveryOf({ type: 'entries', entries })
  }

  isLost(seat: Pick<Seat, 'n'> & Partial<Seat>): boolean {
    if (seat.slow || seat.gap) return true
    return this.#held.length - Math.max(this.#last - seat.n, 0) < this.#start
  }

  ahead(seat: Pick<Seat, 'n'> & Partial<Seat>): readonly SizedEntry[] | null {
    if (this.isLost(seat)) return null
    const from = this.#held.length - Math.max(this.#last - seat.n, 0)
    const end = this.#held[from] ? this.#held[from].end - this.#held[from].bytes : this.#bytes
    let to = Math.min(from + DELIVERY_ENTRIES, this.#held.length)
    while (to > from + 1 && this.#held[to - 1]!.end - end > DELIVERY_BYTES) to -= 1
    return this.#held.slice(from, to)
  }

  /** The number of entries held. */
  get held(): number {
    return this.#held.length - this.#start
  }

  /**
   * The byte total at offset `n`. If the entry after it is not held (not arrived yet, or dropped): the
   * current total.
   */
  #endAt(n: number): number {
    const next = this.#held[this.#held.length - (this.#last - n)]
    return next ? next.end - next.bytes : this.#bytes
  }

  #isFarBehind(seat: Seat): boolean {
    const waiting = (seat.offered ?? this.#last) - seat.n
    return waiting > MOST_WAITING_ENTRIES || this.#bytes - seat.end > MOST_WAITING_BYTES
  }

  /**
   * A subscriber over the lag limit is disconnected if it was caught up before; otherwise it must read from
   * the log.
   */
  #notice(seat: Seat): void {
    const farBehind = this.#isFarBehind(seat)
    if (farBehind && seat.live && !seat.slow) {
      seat.slow = true
      seat.onSlow?.()
    }
    this.#await(seat, seat.n < this.#last && !farBehind)
    wakeUp(seat)
  }

  #await(seat: Seat, waitedFor: boolean): void {
    if (seat.waitedFor === waitedFor) return
    seat.waitedFor = waitedFor
    this.#waitedFor += waitedFor ? 1 : -1
  }

  /** Drops entries that are neither recent nor needed. */
  #trim(): void {
    let first = this.#last - this.held + 1
    const keptFrom =
      this.#kept === 'needed' ? Math.min(this.#neededFrom(), this.#recentFrom()) : this.#last - this.#kept + 1
    first = Math.max(first, keptFrom)
    this.#start = this.#held.length - (this.#last - first + 1)
    if (this.#start * 2 > this.#held.length) {
      this.#held = this.#held.slice(this.#start)
      this.#start = 0
    }
  }

  #neededFrom(): number {
    let needed = this.#last + 1
    if (this.#waitedFor > 0) for (const { waitedFor, n } of this.#seats) if (waitedFor) needed = Math.min(needed, n + 1)
    return needed
  }

  #recentFrom(): number {
    const most = Math.min(this.#seats.size * RECENT_ENTRIES_A_SEAT, MOST_RECENT_ENTRIES, this.held)
    let index = this.#held.length - most
    while (index < this.#held.length && this.#bytes - this.#held[index]!.end > MOST_RECENT_BYTES) index += 1
    return this.#last - (this.#held.length - index) + 1
  }

  #tell(change: 'entries' | 'elsewhere'): void {
    for (const listener of [...this.#listeners]) listener(change)
  }

  #clear(): void {
    this.#held = []
    this.#start = 0
  }
}

function wakeUp(seat: Seat): void {
  const { wake } = seat
  seat.wake = null
  wake?.()
}
