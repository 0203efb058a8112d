// Follows a topic for one subscriber. Reads from the log until the subscriber is caught up, and then from the
// shared window.
import type { StreamPosition } from './cursor.ts'
import type { FollowOptions, LogBatch } from './log.ts'
import { type AttachedPosition, DELIVERY_ENTRIES, type Page, type PublicationWindow, toLogBatch } from './window.ts'

/** A topic as its subscribers see it. It consists of the log and a window with the newest publications. */
export interface TopicSource {
  /** Can be used once `ready` has resolved. */
  readonly window: PublicationWindow
  /** Resolves when the window has been created, or when the signal aborts. */
  ready(signal: AbortSignal): Promise<void>
  /**
   * Reads at most `limit` publications from the log. Waits while the log is unreachable. Returns null when the
   * signal aborts.
   */
  read(after: StreamPosition, limit: number, signal: AbortSignal): Promise<Page | null>
  /** Updates the window from the log. Called when a read has shown that the window lags. */
  refresh(signal: AbortSignal): Promise<void>
}

/**
 * Delivers the publications after a position until the signal aborts. Without a position, delivers a gap and starts
 * at the end of the topic. Reads from the log until the window covers the position, and then from the window.
 */
export async function* batches(
  source: TopicSource,
  after: StreamPosition | null,
  signal: AbortSignal,
  { onSlow, onCaughtUp }: Pick<FollowOptions, 'onSlow' | 'onCaughtUp'> = {},
): AsyncGenerator<LogBatch, void, void> {
  await source.ready(signal)
  if (signal.aborted) return
  const { window } = source
  let position = after ?? window.end
  let attached = window.attach(position, onSlow)
  try {
    if (after === null) yield toLogBatch({ type: 'gap', end: position })
    while (!signal.aborted) {
      attached ??= yield* catchUp(source, position, signal, onSlow)
      if (attached === null) return
      // This loop is not a separate generator, because a generator would cost memory for each idle subscription.
      while (!signal.aborted) {
        const batch = window.take(attached)
        if (batch === 'behind') break
        if (batch !== null) yield batch
        else if (onCaughtUp !== undefined) await onCaughtUp(window, attached, signal)
        else await wokenOrAborted(attached, signal)
      }
      position = { epoch: window.end.epoch, offset: attached.offset }
      window.detach(attached)
      attached = null
    }
  } finally {
    if (attached) window.detach(attached)
  }
}

/** Resolves when publications arrive for the position, or when the signal aborts. */
function wokenOrAborted(attached: AttachedPosition, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const end = () => {
      signal.removeEventListener('abort', end)
      resolve()
    }
    attached.wake = end
    signal.addEventListener('abort', end)
  })
}

/**
 * Delivers from the log until the window covers the position. Returns the attached position, or null when the
 * signal aborts. Before reading a page that may be the last one, reserves a position at the end of the window, so
 * that a subscriber of a busy topic can catch up.
 */
async function* catchUp(
  source: TopicSource,
  from: StreamPosition,
  signal: AbortSignal,
  onSlow?: () => void,
): AsyncGenerator<LogBatch, AttachedPosition | null> {
  const { window } = source
  let position = from
  while (!signal.aborted) {
    let reserved = reserveNear(window, position, onSlow)
    try {
      const page = await source.read(position, DELIVERY_ENTRIES, signal)
      if (page === null) return null
      window.prepend(position, page)
      position =
        page.type === 'gap'
          ? page.end
          : { epoch: position.epoch, offset: page.publications.at(-1)?.offset ?? position.offset }
      if (page.type === 'gap' || page.publications.length > 0) yield toLogBatch(page)
      if (page.type === 'publications' && reserved && !reserved.gap && position.offset >= reserved.offset) {
        const attached = reserved
        reserved = null
        window.advance(attached, position.offset)
        return attached
      }
    } finally {
      if (reserved) window.detach(reserved)
    }
    const attached = window.attach(position, onSlow)
    if (attached) return attached
    if (window.end.epoch !== position.epoch) await source.refresh(signal)
  }
  return null
}

/** Returns a position at the end of the window if one page reaches that far; null if it does not. */
function reserveNear(
  window: PublicationWindow,
  position: StreamPosition,
  onSlow?: () => void,
): AttachedPosition | null {
  const { epoch, offset } = window.end
  return epoch === position.epoch && offset - position.offset <= DELIVERY_ENTRIES
    ? window.attach(window.end, onSlow)
    : null
}

/** Tracks the open iterations of one log, so that closing the log can end all of them. */
export interface Iterations {
  /**
   * Wraps a generator. The generator must pass its signal to everything it awaits. The signal aborts when `outer`
   * aborts, when the consumer calls `return` (even during a pending `next()`), and when `endAll` is called. The
   * generator starts at the first `next()`, and leaves no listener on `outer` when it ends.
   */
  open<T>(outer: AbortSignal, begin: (signal: AbortSignal) => AsyncGenerator<T, void>): AsyncIterableIterator<T>
  /** The number of iterations that have started and have not ended yet. */
  count(): number
  /** Ends all iterations. An iteration that is opened later ends at its first `next()`. */
  endAll(): void
}

export function createIterations(): Iterations {
  const running = new Set<AbortController>()
  let ended = false

  function open<T>(outer: AbortSignal, begin: (signal: AbortSignal) => AsyncGenerator<T, void>) {
    const controller = new AbortController()
    const abort = () => controller.abort()
    let generator: AsyncGenerator<T, void> | null = null

    function start(): AsyncGenerator<T, void> {
      if (ended || outer.aborted) controller.abort()
      outer.addEventListener('abort', abort, { once: true })
      running.add(controller)
      return begin(controller.signal)
    }

    function settle(): void {
      outer.removeEventListener('abort', abort)
      running.delete(controller)
    }

    async function finish(): Promise<IteratorReturnResult<undefined>> {
      controller.abort()
      await generator?.return()
      settle()
      return { done: true, value: undefined }
    }

    const iterator: AsyncIterableIterator<T> = {
      [Symbol.asyncIterator]: () => iterator,
      async next() {
        if (controller.signal.aborted) return finish()
        generator ??= start()
        try {
          const result = await generator.next()
          if (!result.done && !controller.signal.aborted) return result
          return await finish()
        } catch (error) {
          settle()
          throw error
        }
      },
      return: finish,
    }
    return iterator
  }

  return {
    open,
    count: () => running.size,
    endAll() {
      ended = true
      for (const controller of running) controller.abort()
    },
  }
}
