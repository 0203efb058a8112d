/** Lets work that came at once have its turn in small portions, between which everything else has its own. */
export interface Turns {
  /** Resolves at once while few have had theirs in this round of the event loop, otherwise in a later one. */
  next(): Promise<void> | undefined
}

/** Each of them writes out up to 250 events. */
const TURNS_A_ROUND = 16

export function createTurns(): Turns {
  const waiting: (() => void)[] = []
  let taken = 0
  let isCounting = false

  function round(): void {
    const some = waiting.splice(0, TURNS_A_ROUND)
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
      if (taken <= TURNS_A_ROUND && waiting.length === 0) return undefined
      return new Promise((resolve) => waiting.push(resolve))
    },
  }
}
