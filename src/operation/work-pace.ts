import { sleep } from '../lib/async.ts'

/** Work in the background that leaves the database to others: how much of it is done at once, and when it rests. */
export interface WorkPace {
  /** So many rows take about as long as a batch may, by what those before took. */
  rows(): number
  /** After a batch of so many rows, which took so long: rests four times as long as was worked since the last rest. */
  after(rows: number, tookMs: number): Promise<void>
}

/** A batch: nobody minds who waits for the same rows for so long, or for the only connection of an embedded database. */
const AIM_MS = 10
const LEAST_ROWS = 5
const MOST_ROWS = 500
/** A fifth of the time: the disk, too, has to take what others write. */
const REST_TO_WORK = 4

export function createWorkPace(): WorkPace {
  let rows = LEAST_ROWS
  let workedMs = 0

  return {
    rows: () => rows,
    async after(done, tookMs) {
      // What was quick with few rows may not be so with many: then as many as before are tried.
      const saysHowMany = done >= rows || tookMs > AIM_MS
      if (saysHowMany) rows = between(LEAST_ROWS, (done * AIM_MS) / tookMs, Math.min(2 * rows, MOST_ROWS))
      workedMs += tookMs
      if (workedMs < AIM_MS) return
      await sleep(REST_TO_WORK * workedMs)
      workedMs = 0
    },
  }
}

const between = (least: number, value: number, most: number) => Math.round(Math.max(least, Math.min(value, most)))
