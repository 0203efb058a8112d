/** Sockets written to in a row, before the process turns to what else has come: some 7 ms. */
const SOCKETS_A_SLICE = 512
/** How many times as long as a round of writing its rest is, the longest rest, and the shortest that is worth a timer. */
const REST_TO_ROUND = 0.3
const LONGEST_REST_MS = 25
const SHORTEST_REST_MS = 1

/** Gives at most so many sockets what there is for them; answers how many it was. Fewer: it has come to its end. */
export type Fill = (most: number) => number

/** The rhythm in which a server writes to its sockets. */
export interface Rounds {
  /**
   * Calls in the next round: at the end of this tick, or after a rest that the round before has earned. So the more there is
   * to write, the more events leave in one write, and most of the time is left for everything else. A long round is done
   * in slices, between which everything else has its turn.
   */
  next(fill: Fill): void
  /** Calls at the end of this tick or, within a fill, when the round has been filled: after everything for the same socket has been given. */
  atEnd(write: () => void): void
}

export function createRounds(): Rounds {
  let fills: Fill[] = []
  let isFilling = false
  let isRunning = false
  let restsUntil = 0
  const ofRound: (() => void)[] = []
  let ofTick: (() => void)[] = []

  function schedule(): void {
    isRunning = true
    const restMs = restsUntil - performance.now()
    if (restMs < SHORTEST_REST_MS) process.nextTick(round)
    else setTimeout(round, restMs)
  }

  function round(): void {
    const filling = fills
    fills = []
    let workedMs = 0
    function slice(): void {
      const startedAt = performance.now()
      if (filling.length > 0) fillSlice(filling)
      if (filling.length === 0) for (const write of ofRound.splice(0, SOCKETS_A_SLICE)) write()
      const endedAt = performance.now()
      workedMs += endedAt - startedAt
      if (filling.length > 0 || ofRound.length > 0) setImmediate(slice)
      else rest(endedAt, workedMs)
    }
    slice()
  }

  /** Fills for one slice; those that are done leave. */
  function fillSlice(filling: Fill[]): void {
    isFilling = true
    let left = SOCKETS_A_SLICE
    while (left > 0 && filling.length > 0) {
      const filled = filling[0]!(left)
      if (filled < left) filling.shift()
      left -= filled
    }
    isFilling = false
  }

  function rest(endedAt: number, workedMs: number): void {
    restsUntil = endedAt + Math.min(REST_TO_ROUND * workedMs, LONGEST_REST_MS)
    isRunning = false
    if (fills.length > 0) schedule()
  }

  function writeAll(): void {
    const writing = ofTick
    ofTick = []
    for (const write of writing) write()
  }

  return {
    next(fill) {
      fills.push(fill)
      if (!isRunning) schedule()
    },
    atEnd(write) {
      if (isFilling) {
        ofRound.push(write)
        return
      }
      ofTick.push(write)
      if (ofTick.length === 1) process.nextTick(writeAll)
    },
  }
}
