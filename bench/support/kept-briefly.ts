import { readConfig } from '../../src/config.ts'
import { createRetention } from '../../src/operation/retention.ts'
import { type Database, openDatabase } from '../../src/platform/db.ts'
import type { Platform } from '../../src/platform/platform.ts'

const DAY_MS = 86_400_000
const A_DAY = { PARLEY_KEEP_MESSAGES_DAYS: '1', PARLEY_KEEP_RUNS_DAYS: '1', PARLEY_KEEP_AUDIT_DAYS: '1' }

/** Retention as a worker runs it, but with a clock that is ahead, so that rows kept for a day are deleted after `keepMs`. */
export interface BriefRetention {
  db: Database
  sweep(): Promise<void>
  /** The duration of each batch of deletions in ms. Other transactions can have to wait that long for its rows. */
  batches: number[]
  close(): Promise<void>
}

export async function keepBriefly(url: string, keepMs: number): Promise<BriefRetention> {
  const db = await openDatabase({ url, dataDirectory: '', poolSize: 3 })
  const batches: number[] = []
  const timed: Database = {
    ...db,
    async query(statement) {
      const since = performance.now()
      const rows = await db.query(statement)
      if (statement.text.includes('DELETE')) batches.push(performance.now() - since)
      return rows as never[]
    },
  }
  const clock = { now: () => Date.now() + DAY_MS - keepMs }
  const { sweep } = createRetention({ db: timed, clock, config: readConfig(A_DAY) } as Platform)
  return { db, sweep, batches, close: () => db.close() }
}
