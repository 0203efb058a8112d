/**
 * Limits how many waiting callers continue in one iteration of the event loop, so that other work can run in between.
 */
export interface Turns {
  /**
   * Returns undefined if the caller can continue in this iteration. Otherwise, returns a promise that resolves in a
   * later iteration. Callers continue in the order of their calls.
   */
  next(): Promise<void> | undefined
}

export interface TurnsOptions {
  /** The number of callers that continue per iteration. */
  few: number
  /**
   * Raises the limit to one in `crowdShare` of the waiting callers, so that many callers finish soon. If absent, the
   * limit is always `few`.
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
