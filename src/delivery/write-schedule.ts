// Optimization: pauses for 1 to 5 ms between rounds of writes, so that the events that arrive in the meantime are
// sent in one write. Long rounds are divided into slices. To remove this stage, let hub.ts serve each group in
// `setImmediate`. Gain: 1.4 to 1.6 × less CPU per message in groups of 10 subscribers
// (docs/decisions/delivery-stages.md). The limit of `bench/fanout` with 1,000 viewers in 100 spaces needs this
// stage.
/** How many subscribers are served before other events are handled. Serving them takes about 7 ms. */
const SERVED_A_SLICE = 512
/**
 * The pause after a round in proportion to the duration of the round, and its limits. Events that arrive during the
 * pause are sent in one write. A long round batches more events anyway, and other events are handled between its
 * slices.
 */
const REST_TO_ROUND = 0.3
const LONGEST_REST_MS = 5
const SHORTEST_REST_MS = 1

/**
 * Serves at most `most` subscribers, and returns how many were served. If the result is lower than `most`, none are
 * left.
 */
export type Serve = (most: number) => number

/** Schedules the writes to all sockets of this process. */
export interface WriteSchedule {
  /**
   * Calls `serve` in the next round: at the end of this tick, or after the pause of the previous round. A longer
   * round is followed by a longer pause, so that more events share a write. A long round is divided into slices,
   * and other events are handled between them.
   */
  next(serve: Serve): void
}

export function createWriteSchedule(): WriteSchedule {
  let waiting: Serve[] = []
  let isRunning = false
  let restsUntil = 0

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
      const endedAt = performance.now()
      workedMs += endedAt - startedAt
      if (serving.length > 0) setImmediate(slice)
      else rest(endedAt, workedMs)
    }
    slice()
  }

  /** Serves one slice. Removes the functions that have served all their subscribers. */
  function serveSlice(serving: Serve[]): void {
    let left = SERVED_A_SLICE
    while (left > 0 && serving.length > 0) {
      const served = serving[0]!(left)
      if (served < left) serving.shift()
      left -= Math.max(served, 1)
    }
  }

  function rest(endedAt: number, workedMs: number): void {
    restsUntil = endedAt + Math.min(Math.max(REST_TO_ROUND * workedMs, SHORTEST_REST_MS), LONGEST_REST_MS)
    isRunning = false
    if (waiting.length > 0) schedule()
  }

  return {
    next(serve) {
      waiting.push(serve)
      if (!isRunning) schedule()
    },
  }
}
