import { sleep } from '../lib/async.ts'

/** Paces background work so that it leaves the database to others: the batch size, and the pauses. */
export interface WorkPace {
  /** Returns the batch size that should take the target time, judging by earlier batches. */
  rows(): number
  /** Records the size and duration of a batch; pauses for four times the working time since the last pause. */
  after(rows: number, tookMs: number): Promise<void>
}

/**
 * The target time of a batch: short enough for anyone who waits for the same rows, or for the only connection of an
 * embedded database.
 */
const AIM_MS = 10
const LEAST_ROWS = 5
const MOST_ROWS = 500
/** Work takes up a fifth of the time, because the disk must also keep up with other writes. */
const REST_TO_WORK = 4

export function createWorkPace(pause: (ms: number) => Promise<void> = sleep): WorkPace {
  let rows = LEAST_ROWS
  let workedMs = 0

  return {
    rows: () => rows,
    async after(done, tookMs) {
      // A fast batch smaller than requested does not show that a full one is fast; the size then stays the same.
      const saysHowMany = done >= rows || tookMs > AIM_MS
      if (saysHowMany) rows = between(LEAST_ROWS, (done * AIM_MS) / tookMs, Math.min(2 * rows, MOST_ROWS))
      workedMs += tookMs
      if (workedMs < AIM_MS) return
      await pause(REST_TO_WORK * workedMs)
      workedMs = 0
    },
  }
}

const between = (least: number, value: number, most: number) => Math.round(Math.max(least, Math.min(value, most)))
