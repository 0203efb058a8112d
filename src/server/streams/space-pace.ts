const INTERVAL_MS = 500

/**
 * Debounces the changes of each space: the first passes at once, later ones at most every half second, and
 * the last one is never lost.
 */
export interface SpacePace {
  changed(spaceId: string): void
  /** Drops the pending change of a space that the viewer has left. */
  forget(spaceId: string): void
  close(): void
}

export function createSpacePace(tell: (spaceId: string) => void, intervalMs = INTERVAL_MS): SpacePace {
  /** Spaces that were delivered within the last interval, and whether they have changed since. */
  const resting = new Map<string, { timer: NodeJS.Timeout; changed: boolean }>()

  function rest(spaceId: string): void {
    const wake = () => {
      const { changed } = resting.get(spaceId) ?? {}
      resting.delete(spaceId)
      if (!changed) return
      tell(spaceId)
      rest(spaceId)
    }
    resting.set(spaceId, { timer: setTimeout(wake, intervalMs).unref(), changed: false })
  }

  function forget(spaceId: string): void {
    clearTimeout(resting.get(spaceId)?.timer)
    resting.delete(spaceId)
  }

  return {
    changed(spaceId) {
      const rested = resting.get(spaceId)
      if (rested !== undefined) {
        rested.changed = true
        return
      }
      tell(spaceId)
      rest(spaceId)
    },
    forget,
    close() {
      for (const spaceId of [...resting.keys()]) forget(spaceId)
    },
  }
}
