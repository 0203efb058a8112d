import { encodeCursor, type Position } from './cursor.ts'
import { type Delivery, type LiveSeat, type LiveWindow, type SizedEntry, SlowConsumerError } from './event-log.ts'

/** A consumer that is further behind than this is cut off. */
export const MOST_WAITING_ENTRIES = 1000
export const MOST_WAITING_BYTES = 4 * 1024 * 1024
/** Entries and bytes of one delivery, at most; one entry always fits. */
export const DELIVERY_ENTRIES = 250
const DELIVERY_BYTES = 256 * 1024
/** Beyond what is needed a window keeps so many entries for each seat, so many at most: for a crowd that comes back. */
const RECENT_ENTRIES_A_SEAT = 8
const MOST_RECENT_ENTRIES = 500
const MOST_RECENT_BYTES = 512 * 1024

/** What lies after a position: entries, perhaps none, or a gap and where it ends. */
export type Page = { type: 'entries'; entries: readonly SizedEntry[] } | { type: 'gap'; end: Position }

/** A page as it is delivered. */
export function deliveryOf(page: Page): Delivery {
  return page.type === 'gap'
    ? { type: 'gap', cursor: encodeCursor(page.end) }
    : { type: 'entries', entries: page.entries.map(({ entry }) => entry) }
}

interface HeldEntry extends SizedEntry {
  /** Bytes pushed into the window up to and with this entry. */
  end: number
}

/** A follower's place in the window: its position and nothing else. */
export interface Seat extends LiveSeat {
  n: number
  /** Bytes pushed up to its position. */
  end: number
  /** It has had everything since it sat down or met a gap: from then on it must keep up. */
  live: boolean
  /** The topic was lost or cut: what comes next is a gap. */
  gap: boolean
  slow: boolean
  /** Up to where it was offered what there is; null where it can take all of it at any time. */
  offered: number | null
  /** The window holds entries for it. */
  waitedFor: boolean
  /** Called once when something comes. */
  wake: (() => void) | null
  onSlow: (() => void) | undefined
}

/**
 * The newest entries of a topic, held once for all its followers in this process. It keeps the last `kept` entries, or with
 * `'needed'` those that its seats have not taken yet, and some before them.
 */
export class EntryWindow implements LiveWindow {
  #epoch: string
  #last: number
  #held: HeldEntry[] = []
  /** Held entries before this index are given up; they leave the array in bulk. */
  #start = 0
  #bytes = 0
  readonly #kept: number | 'needed'
  readonly #seats = new Set<Seat>()
  readonly #listeners = new Set<(change: 'entries' | 'elsewhere') => void>()
  /** How many seats are waited for. */
  #waitedFor = 0

  constructor(end: Position, kept: number | 'needed') {
    this.#epoch = end.epoch
    this.#last = end.n
    this.#kept = kept
  }

  /** After its last entry. */
  get end(): Position {
    return { epoch: this.#epoch, n: this.#last }
  }

  /** Whether the position is known here, and everything after it is held or still to come. */
  covers({ epoch, n }: Position): boolean {
    return epoch === this.#epoch && n <= this.#last && n >= this.#last - this.held
  }

  /** What is held after a position, at most `limit` entries; a gap where the window does not cover it. */
  read(after: Position, limit: number): Page {
    if (!this.covers(after)) return { type: 'gap', end: this.end }
    const from = this.#held.length - (this.#last - after.n)
    return { type: 'entries', entries: this.#held.slice(from, from + limit) }
  }

  /** A seat at a position that the window covers; null for another one. Give it back by `leave`. */
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

  /** Moves a seat on, over what its follower got elsewhere; also to an entry that has not come here yet. */
  skip(seat: Seat, n: number): void {
    if (n <= seat.n) return
    seat.n = n
    seat.end = this.#endAt(n)
    if (n >= this.#last) this.#await(seat, false)
  }

  offer(seat: Seat, n: number | null): void {
    seat.offered = n
  }

  /** Adds the entries that follow the last one, and wakes those who wait. */
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

  /** Takes in what was read from the log after a position, where the window begins right after it, or within it. */
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

  /** The topic goes on elsewhere: every seat gets a gap. */
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

  /** Goes on after the n-th entry without those before it: seats behind it must read them elsewhere. */
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
   * What the seat has not had yet; null when there is nothing, `behind` when the window no longer covers its place.
   * @throws SlowConsumerError when it fell too far behind.
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

  /** How many entries are held. */
  get held(): number {
    return this.#held.length - this.#start
  }

  /** Where the entry after the n-th is not held, because it is still to come or was given up: the end. */
  #endAt(n: number): number {
    const next = this.#held[this.#held.length - (this.#last - n)]
    return next ? next.end - next.bytes : this.#bytes
  }

  #isFarBehind(seat: Seat): boolean {
    const waiting = (seat.offered ?? this.#last) - seat.n
    return waiting > MOST_WAITING_ENTRIES || this.#bytes - seat.end > MOST_WAITING_BYTES
  }

  /** Who is far behind is not waited for: it is cut off, or where it never was at the end, has to read elsewhere. */
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

  /** Gives up what is older than what is kept, or needed. */
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
