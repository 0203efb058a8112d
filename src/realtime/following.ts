import type { Position } from './cursor.ts'
import { DELIVERY_ENTRIES, deliveryOf, type EntryWindow, type Page, type Seat } from './entry-window.ts'
import type { Delivery, FollowOptions } from './event-log.ts'

/** A topic as its followers see it: the window over its newest entries, and the log behind it. */
export interface TopicSource {
  /** There from when the source stands. */
  readonly window: EntryWindow
  /** Resolves when the window receives what is appended, or when the signal aborts. */
  standing(signal: AbortSignal): Promise<void>
  /** At most `limit` entries from the log itself. Waits for as long as the log is away; null when the signal aborts. */
  read(after: Position, limit: number, signal: AbortSignal): Promise<Page | null>
  /** Brings the window up to the log, where a read has shown that it is not. */
  refresh(signal: AbortSignal): Promise<void>
}

/**
 * What comes after a position (without one: a gap at the end, then what comes), until the signal aborts. It reads from the
 * log until the window covers its place; from there on it holds a seat in the window and nothing else.
 */
export async function* deliveries(
  source: TopicSource,
  after: Position | null,
  signal: AbortSignal,
  { onSlow, onSeat }: Pick<FollowOptions, 'onSlow' | 'onSeat'> = {},
): AsyncGenerator<Delivery, void, void> {
  await source.standing(signal)
  if (signal.aborted) return
  const { window } = source
  let position = after ?? window.end
  let seat = window.sit(position, onSlow)
  try {
    if (after === null) yield deliveryOf({ type: 'gap', end: position })
    while (!signal.aborted) {
      seat ??= yield* catchUp(source, position, signal, onSlow)
      if (seat === null) return
      yield* liveDeliveries(window, seat, signal, onSeat)
      position = { epoch: window.end.epoch, n: seat.n }
      window.leave(seat)
      seat = null
    }
  } finally {
    if (seat) window.leave(seat)
  }
}

/** Delivers from the window until the seat is no longer covered by it. */
async function* liveDeliveries(
  window: EntryWindow,
  seat: Seat,
  signal: AbortSignal,
  onSeat: FollowOptions['onSeat'],
): AsyncGenerator<Delivery, void> {
  const stop = () => seat.wake?.()
  signal.addEventListener('abort', stop)
  try {
    while (!signal.aborted) {
      const delivery = window.take(seat)
      if (delivery === 'behind') return
      if (delivery !== null) yield delivery
      else if (onSeat !== undefined) await onSeat(window, seat, signal)
      else await new Promise<void>((resolve) => (seat.wake = resolve))
    }
  } finally {
    signal.removeEventListener('abort', stop)
  }
}

/**
 * Delivers from the log until a seat in the window can be taken, and answers with it; null when the signal aborts. Before
 * the page that may be the last one it reserves a seat at the window's end, so that a busy topic cannot run ahead of it.
 */
async function* catchUp(
  source: TopicSource,
  from: Position,
  signal: AbortSignal,
  onSlow?: () => void,
): AsyncGenerator<Delivery, Seat | null> {
  const { window } = source
  let position = from
  while (!signal.aborted) {
    let reserved = reserveNear(window, position, onSlow)
    try {
      const page = await source.read(position, DELIVERY_ENTRIES, signal)
      if (page === null) return null
      window.adopt(position, page)
      position = page.type === 'gap' ? page.end : { epoch: position.epoch, n: page.entries.at(-1)?.n ?? position.n }
      if (page.type === 'gap' || page.entries.length > 0) yield deliveryOf(page)
      if (page.type === 'entries' && reserved && !reserved.gap && position.n >= reserved.n) {
        const seat = reserved
        reserved = null
        window.skip(seat, position.n)
        return seat
      }
    } finally {
      if (reserved) window.leave(reserved)
    }
    const seat = window.sit(position, onSlow)
    if (seat) return seat
    if (window.end.epoch !== position.epoch) await source.refresh(signal)
  }
  return null
}

/** A seat at the window's end, where one page reaches that far. */
function reserveNear(window: EntryWindow, position: Position, onSlow?: () => void): Seat | null {
  const { epoch, n } = window.end
  return epoch === position.epoch && n - position.n <= DELIVERY_ENTRIES ? window.sit(window.end, onSlow) : null
}
