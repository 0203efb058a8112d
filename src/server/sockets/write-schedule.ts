/** Subscribers served in a row, before the process turns to what else has come: some 7 ms. */
const SERVED_A_SLICE = 512
/**
 * How many times as long as a round of writing its rest is, at most, and at least: what comes within that leaves in one write. A long
 * round gathers more by itself, and lets others have their turn between its slices.
 */
const REST_TO_ROUND = 0.3
const LONGEST_REST_MS = 5
const SHORTEST_REST_MS = 1

/** Serves at most so many subscribers with what there is for them; answers how many it was. Fewer: it has come to its end. */
export type Serve = (most: number) => number

/** The rhythm in which a server writes to its sockets. */
export interface WriteSchedule {
  /**
   * Calls in the next round: at the end of this tick, or after the rest of the round before, where that is not over. So the more
   * there is to write, the more events leave in one write. A long round is done in slices, between which everything else has
   * its turn.
   */
  next(serve: Serve): void
  /** Calls when everything that is written in the same slice, or else in this tick, has been given. */
  atEnd(flush: () => void): void
}

export function createWriteSchedule(): WriteSchedule {
  let waiting: Serve[] = []
  let isServing = false
  let isRunning = false
  let restsUntil = 0
  let flushes: (() => void)[] = []

  function schedule(): void {
    isRunning = true
    const restMs = restsUntil - performance.now()
    if (restMs <= 0) process.nextTick(round)
    else setTimeout(round, restMs)
  }

  function round(): void {
    const serving = waiting
    waiting = []
    let workedMs = 0
    function slice(): void {
      const startedAt = performance.now()
      serveSlice(serving)
      flushAll()
      const endedAt = performance.now()
      workedMs += endedAt - startedAt
      if (serving.length > 0) setImmediate(slice)
      else rest(endedAt, workedMs)
    }
    slice()
  }

  /** Those that are done leave. */
  function serveSlice(serving: Serve[]): void {
    isServing = true
    let left = SERVED_A_SLICE
    while (left > 0 && serving.length > 0) {
      const served = serving[0]!(left)
      if (served < left) serving.shift()
      left -= Math.max(served, 1)
    }
    isServing = false
  }

  function rest(endedAt: number, workedMs: number): void {
    restsUntil = endedAt + Math.min(Math.max(REST_TO_ROUND * workedMs, SHORTEST_REST_MS), LONGEST_REST_MS)
    isRunning = false
    if (waiting.length > 0) schedule()
  }

  function flushAll(): void {
    const flushing = flushes
    flushes = []
    for (const flush of flushing) flush()
  }

  return {
    next(serve) {
      waiting.push(serve)
      if (!isRunning) schedule()
    },
    atEnd(flush) {
      flushes.push(flush)
      if (flushes.length === 1 && !isServing) process.nextTick(flushAll)
    },
  }
}
