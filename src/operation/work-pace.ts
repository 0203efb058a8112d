import { sleep } from '../lib/async.ts'

/** Controls the batch size and the pauses of background work, so that the database has time for other work. */
export interface WorkPace {
  /** Returns the batch size that should take the target time, according to earlier batches. */
  rows(): number
  /**
   * Records the size and duration of a batch. Once enough working time has accumulated, pauses for four times as
   * long.
   */
  after(rows: number, tookMs: number): Promise<void>
}

/**
 * The target duration of a batch. It is short for the sake of statements that wait for the same rows, or for the only
 * connection of an embedded database.
 */
const AIM_MS = 10
const LEAST_ROWS = 5
const MOST_ROWS = 500
/**
 * The ratio of pauses to work. Background work uses a fifth of the time, because the disk must also handle other
 * writes.
 */
const REST_TO_WORK = 4

export function createWorkPace(pause: (ms: number) => Promise<void> = sleep): WorkPace {
  let rows = LEAST_ROWS
  let workedMs = 0

  return {
    rows: () => rows,
    async after(done, tookMs) {
      // A fast batch with fewer rows than requested does not prove that a full batch would be fast. The batch size then
      // stays the same.
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
