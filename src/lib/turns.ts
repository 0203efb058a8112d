/** Lets work that came at once have its turn in small portions, between which everything else has its own. */
export interface Turns {
  /** Resolves at once while few have had theirs in this round of the event loop, otherwise in a later one, in the order of the questions. */
  next(): Promise<void> | undefined
}

export interface TurnsOptions {
  /** So many have theirs in one round. */
  few: number
  /** Or one in so many of those who wait: so a crowd is gone soon. Absent: never more than few. */
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
