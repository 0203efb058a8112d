/** Joins small pieces of text per key, so that many small deltas become few larger ones. */
export interface DeltaJoiner {
  /**
   * Sends the first piece of a key immediately, and joins later ones within the interval. Keys are sent in the order of
   * their first piece.
   */
  push(key: string, text: string): void
  /** Sends everything that is buffered. */
  flush(): void
}

interface DeltaJoinerOptions {
  /** The interval in ms; 0 to send every piece separately. */
  intervalMs: number
  /** The destination. All joiners of one destination send at the same time, so that subscribers get fewer batches. */
  place: string
}

/**
 * Creates joiners. Joiners of one destination are synchronized only within one maker, so an application has one maker.
 */
export interface DeltaJoiners {
  /** Calls `send` with the joined text of a key; it must not throw. */
  joiner(options: DeltaJoinerOptions, send: (key: string, text: string) => void): DeltaJoiner
}

export function createDeltaJoiners(): DeltaJoiners {
  const waiting: Waiting = new Map()
  return { joiner: (options, send) => createDeltaJoiner(waiting, options, send) }
}

/** Waiting flushes by destination. */
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

  /** Sends when the interval of the first waiting joiner of the destination has passed. */
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
