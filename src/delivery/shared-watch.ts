/**
 * Lets many listeners share one subscription per key. The subscription is opened for the first listener and closed
 * after the last one has left.
 */
export interface SharedWatch<T> {
  /** Resolves when the subscription is active. Returns a function that removes the listener. */
  join(key: string, listener: (value: T) => void): Promise<() => void>
  /** The number of open subscriptions. */
  size(): number
}

interface Entry<T> {
  listeners: Set<(value: T) => void>
  opened: Promise<() => void>
  /** The final value, if it has arrived. Later listeners receive it at once. */
  last: { value: T } | null
}

/**
 * `open` subscribes to a key and returns a function that ends the subscription. If `final` is true, a subscription
 * yields only one value.
 */
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
