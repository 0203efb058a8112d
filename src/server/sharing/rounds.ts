/** How many times as long as a round of writing its rest is, the longest rest, and the shortest that is worth a timer. */
const REST_TO_ROUND = 1
const LONGEST_REST_MS = 25
const SHORTEST_REST_MS = 1

/** The rhythm in which a server writes to its sockets. */
export interface Rounds {
  /**
   * Calls in the next round: at the end of this tick, or after a rest that the round before has earned. So the more there is
   * to write, the more events leave in one write, and most of the time is left for everything else.
   */
  next(fill: () => void): void
  /** Calls at the end of this tick or, during a round, of the round: after everything for the same socket has been given. */
  atEnd(write: () => void): void
}

export function createRounds(): Rounds {
  let fills: (() => void)[] = []
  let writes: (() => void)[] = []
  let restsUntil = 0

  function round(): void {
    const startedAt = performance.now()
    const filling = fills
    fills = []
    for (const fill of filling) fill()
    writeAll()
    const endedAt = performance.now()
    restsUntil = endedAt + Math.min(REST_TO_ROUND * (endedAt - startedAt), LONGEST_REST_MS)
  }

  function writeAll(): void {
    const writing = writes
    writes = []
    for (const write of writing) write()
  }

  return {
    next(fill) {
      fills.push(fill)
      if (fills.length > 1) return
      const restMs = restsUntil - performance.now()
      if (restMs < SHORTEST_REST_MS) process.nextTick(round)
      else setTimeout(round, restMs)
    },
    atEnd(write) {
      writes.push(write)
      if (writes.length === 1) process.nextTick(writeAll)
    },
  }
}
