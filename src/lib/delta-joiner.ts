/** Joins small pieces of text per key, so that many small deltas become few larger ones. */
export interface DeltaJoiner {
  /** The first piece of a key goes out at once; later ones within the interval, joined, in the order of their keys' first piece. */
  push(key: string, text: string): void
  /** Sends what is held. */
  flush(): void
}

/** What waits by interval: all joiners of the process send at the same time, so that readers get it all at once too. */
const waiting = new Map<number, Set<() => void>>()

/** `send` is called with the joined text of one key; it must not throw. `intervalMs` 0 sends every piece. */
export function createDeltaJoiner(intervalMs: number, send: (key: string, text: string) => void): DeltaJoiner {
  const seen = new Set<string>()
  const held = new Map<string, string>()

  function flush(): void {
    waiting.get(intervalMs)?.delete(flush)
    for (const [key, text] of held) send(key, text)
    held.clear()
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
      wait(intervalMs, flush)
    },
    flush,
  }
}

/** Calls when the interval is over that the first of those who wait has begun. */
function wait(intervalMs: number, flush: () => void): void {
  const others = waiting.get(intervalMs)
  if (others !== undefined) {
    others.add(flush)
    return
  }
  const flushes = new Set([flush])
  waiting.set(intervalMs, flushes)
  setTimeout(() => {
    waiting.delete(intervalMs)
    for (const each of flushes) each()
  }, intervalMs)
}
