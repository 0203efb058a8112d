/** Joins small pieces of text with the same key, so that many small deltas become fewer, larger ones. */
export interface DeltaJoiner {
  /**
   * Sends the first piece of a key immediately, and joins the pieces that follow within the interval. Keys are sent in
   * the order of their first pieces.
   */
  push(key: string, text: string): void
  /** Sends everything that is buffered. */
  flush(): void
}

interface DeltaJoinerOptions {
  /** The interval in ms. With 0, every piece is sent separately. */
  intervalMs: number
  /** The destination. All joiners of a destination send at the same time, so that subscribers get fewer batches. */
  place: string
}

/**
 * Creates joiners. Only joiners that were created by the same object are synchronized, so an application has one of
 * these.
 */
export interface DeltaJoiners {
  /** Calls `send`, which must not throw, with the joined text of a key. */
  joiner(options: DeltaJoinerOptions, send: (key: string, text: string) => void): DeltaJoiner
}

export function createDeltaJoiners(): DeltaJoiners {
  const waiting: Waiting = new Map()
  return { joiner: (options, send) => createDeltaJoiner(waiting, options, send) }
}

/** The flushes that are due later, by destination. */
type Waiting = Map<string, Set<() => void>>

function createDeltaJoiner(
  waiting: Waiting,
  { intervalMs, place }: DeltaJoinerOptions,
  send: (key: string, text: string) => void,
): DeltaJoiner {
  const seen = new Set<string>()
  const held = new Map<string, string>()

  function flush(): void {
    waiting.get(place)?.delete(flush)
    for (const [key, text] of held) send(key, text)
    held.clear()
  }

  /** Sends as soon as the interval of any waiting joiner of the destination has passed. */
  function flushWithOthers(): void {
    const others = waiting.get(place)
    if (others !== undefined) {
      others.add(flush)
      return
    }
    const flushes = new Set([flush])
    waiting.set(place, flushes)
    setTimeout(() => {
      waiting.delete(place)
      for (const each of flushes) each()
    }, intervalMs)
  }

  return {
    push(key, text) {
      if (intervalMs === 0 || !seen.has(key)) {
        seen.add(key)
        flush()
        send(key, text)
        return
      }
      held.set(key, (held.get(key) ?? '') + text)
      flushWithOthers()
    },
    flush,
  }
}
