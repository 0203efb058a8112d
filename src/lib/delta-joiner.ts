/** Joins small pieces of text per key, so that many small deltas become few larger ones. */
export interface DeltaJoiner {
  /** The first piece of a key goes out at once; later ones within the interval, joined, in the order of their keys' first piece. */
  push(key: string, text: string): void
  /** Sends what is held. */
  flush(): void
}

interface DeltaJoinerOptions {
  /** 0 sends every piece. */
  intervalMs: number
  /** Where the pieces go: all joiners of one place send at the same time, so that its readers get it all at once too. */
  place: string
}

/** Makes joiners. Those of one place wait for one another where they come from the same maker: an application has one. */
export interface DeltaJoiners {
  /** `send` is called with the joined text of one key; it must not throw. */
  joiner(options: DeltaJoinerOptions, send: (key: string, text: string) => void): DeltaJoiner
}

export function createDeltaJoiners(): DeltaJoiners {
  const waiting: Waiting = new Map()
  return { joiner: (options, send) => createDeltaJoiner(waiting, options, send) }
}

/** What waits, by place. */
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

  /** Sends when the interval is over that the first of those who wait at the place has begun. */
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
