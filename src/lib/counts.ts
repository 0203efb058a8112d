/** Counts by key. A key whose count is 0 takes no memory. */
export interface Counts {
  of(key: string): number
  /** Adds `change` to the count of a key, and returns the new count. */
  add(key: string, change: number): number
}

export function createCounts(): Counts {
  const counts = new Map<string, number>()
  return {
    of: (key) => counts.get(key) ?? 0,
    add(key, change) {
      const count = (counts.get(key) ?? 0) + change
      if (count === 0) counts.delete(key)
      else counts.set(key, count)
      return count
    },
  }
}
