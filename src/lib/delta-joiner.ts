/** Joins small pieces of text per key, so that many small deltas become few larger ones. */
export interface DeltaJoiner {
  /** The first piece of a key goes out at once; later ones within the interval, joined, in the order of their keys' first piece. */
  push(key: string, text: string): void
  /** Sends what is held. */
  flush(): void
}

/** `send` is called with the joined text of one key; it must not throw. `intervalMs` 0 sends every piece. */
export function createDeltaJoiner(intervalMs: number, send: (key: string, text: string) => void): DeltaJoiner {
  const seen = new Set<string>()
  const held = new Map<string, string>()
  let timer: NodeJS.Timeout | null = null

  function flush(): void {
    if (timer !== null) clearTimeout(timer)
    timer = null
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
      timer ??= setTimeout(flush, intervalMs)
    },
    flush,
  }
}
