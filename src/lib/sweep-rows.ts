/** The number of rows that a sweep reads at a time. */
const ROWS_AT_ONCE = 100

/** A sweep over rows that need work, in the order of their ids. */
export interface RowSweep<Row extends { id: string }> {
  /** Returns the next rows after the id `after`, at most `most`, in the order of their ids. */
  next(after: string, most: number): Promise<Row[]>
  handle(row: Row): Promise<unknown>
  /** Reports that `handle` failed. The sweep continues with the other rows. */
  report(row: Row, error: unknown): void
  /** The number of rows that are handled concurrently. */
  concurrency?: number
  /** Aborting this signal ends the sweep before the next row. */
  signal?: AbortSignal | undefined
}

/** Handles all rows, in batches. If a row fails, the other rows are still handled. */
export async function sweepRows<Row extends { id: string }>({
  next,
  handle,
  report,
  concurrency = 1,
  signal,
}: RowSweep<Row>): Promise<void> {
  for (let after = ''; ; ) {
    const rows = await next(after, ROWS_AT_ONCE)
    const last = rows[ROWS_AT_ONCE - 1]
    const takeTurns = async () => {
      for (let row = rows.shift(); row !== undefined && !signal?.aborted; row = rows.shift()) {
        try {
          await handle(row)
        } catch (error) {
          report(row, error)
        }
      }
    }
    await Promise.all(Array.from({ length: concurrency }, takeTurns))
    if (last === undefined || signal?.aborted) return
    after = last.id
  }
}
