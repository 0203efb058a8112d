/** Listens to something on behalf of many: opened for the first, closed after the last. */
export interface SharedWatch<T> {
  /** Resolves when it stands; comes back with the way to leave. */
  join(key: string, listener: (value: T) => void): Promise<() => void>
  /** How many are listened to now. */
  size(): number
}

interface Entry<T> {
  listeners: Set<(value: T) => void>
  opened: Promise<() => void>
  /** What a `final` value was: who joins later is told at once. */
  last: { value: T } | null
}

/** `open` begins to listen to a key and answers with the way to stop. Where values are `final`, the first is the last word. */
export function createSharedWatch<T>(
  open: (key: string, emit: (value: T) => void) => Promise<() => void>,
  { final = false } = {},
): SharedWatch<T> {
  const entries = new Map<string, Entry<T>>()

  function begin(key: string): Entry<T> {
    const entry: Entry<T> = { listeners: new Set(), opened: Promise.resolve(() => {}), last: null }
    const emit = (value: T) => {
      if (final) entry.last = { value }
      for (const listener of [...entry.listeners]) listener(value)
    }
    entries.set(key, entry)
    entry.opened = open(key, emit)
    entry.opened.catch(() => entries.delete(key))
    return entry
  }

  return {
    async join(key, listener) {
      const entry = entries.get(key) ?? begin(key)
      const own = (value: T) => listener(value)
      entry.listeners.add(own)
      if (entry.last !== null) listener(entry.last.value)
      const close = await entry.opened
      return () => {
        if (!entry.listeners.delete(own) || entry.listeners.size > 0) return
        if (entries.get(key) === entry) entries.delete(key)
        close()
      }
    },
    size: () => entries.size,
  }
}
