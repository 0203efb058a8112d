import type { Position } from './cursor.ts'
import { DELIVERY_ENTRIES, deliveryOf, type EntryWindow, type Page, type Seat } from './entry-window.ts'
import type { Delivery, FollowOptions } from './event-log.ts'

/** A topic as its subscribers see it: the window over the newest entries, and the log behind it. */
export interface TopicSource {
  /** Available once `standing` resolves. */
  readonly window: EntryWindow
  /** Resolves when the window receives new entries, or when the signal aborts. */
  standing(signal: AbortSignal): Promise<void>
  /**
   * Reads at most `limit` entries from the log. Waits while the log is unreachable; returns null when the
   * signal aborts.
   */
  read(after: Position, limit: number, signal: AbortSignal): Promise<Page | null>
  /** Brings the window up to date with the log, after a read showed that it is not. */
  refresh(signal: AbortSignal): Promise<void>
}

/**
 * Delivers the entries after a position until the signal aborts; without a position, it starts with a gap at
 * the end of the topic. It reads from the log until the window covers its position, and from the window after
 * that.
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

/** Delivers from the window until the window no longer covers the position. */
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
 * Delivers from the log until the window covers the position, and returns the attached position; null when
 * the signal aborts. Before it reads a page that may be the last one, it reserves a position at the end of
 * the window, so that a busy topic cannot outrun it.
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

/** Returns a position at the end of the window if one page reaches that far, else null. */
function reserveNear(window: EntryWindow, position: Position, onSlow?: () => void): Seat | null {
  const { epoch, n } = window.end
  return epoch === position.epoch && n - position.n <= DELIVERY_ENTRIES ? window.sit(window.end, onSlow) : null
}
