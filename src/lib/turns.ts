/** Limits how many waiting callers continue per turn of the event loop, so that other work runs in between. */
export interface Turns {
  /**
   * Returns undefined if the caller may continue in this turn; otherwise resolves in a later turn, in the order of the
   * calls.
   */
  next(): Promise<void> | undefined
}

export interface TurnsOptions {
  /** The number of callers that continue per turn. */
  few: number
  /**
   * Raises the limit to this share of the waiting callers (one in `crowdShare`), so that many callers finish soon.
   * If absent, the limit stays at `few`.
   */
  crowdShare?: number
}

export function createTurns({ few, crowdShare = Number.POSITIVE_INFINITY }: TurnsOptions): Turns {
  const waiting: (() => void)[] = []
  let taken = 0
  let isCounting = false

  function round(): void {
    const some = waiting.splice(0, Math.max(few, Math.ceil(waiting.length / crowdShare)))
    taken = some.length
    isCounting = taken > 0
    if (isCounting) setImmediate(round)
    for (const turn of some) turn()
  }

  return {
    next() {
      if (!isCounting) {
        isCounting = true
        setImmediate(round)
      }
      taken += 1
      if (taken <= few && waiting.length === 0) return undefined
      return new Promise((resolve) => waiting.push(resolve))
    },
  }
}
