import type { Database } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'
import {
  CHAINS,
  ENTRIES,
  EVENTS,
  GRANTS,
  MESSAGES,
  type OldRow,
  type OldRows,
  ROOTS,
  RUNS,
  removal,
  search,
} from './old-rows.ts'
import { createWorkPace, type WorkPace } from './work-pace.ts'

/** Deletes rows that are older than the settings allow. */
export interface RetentionUpkeep {
  /**
   * Deletes old rows in small batches with pauses, for a few seconds at most. Ends early if the signal aborts, or if
   * another process holds the lock for deletions. The next sweep continues.
   */
  sweep(signal?: AbortSignal): Promise<void>
}

/**
 * The maximum duration of a sweep: a third of the interval of DELETE_OLD_ROWS, so that the disk can serve other
 * work.
 */
const LONGEST_SWEEP_MS = 5000
/** The size of the largest batch. */
const ROWS_OF_SEARCH = 500
const DAY_MS = 86_400_000

interface Kept {
  kind: OldRows
  days: number
  pace: WorkPace
}

export function createRetention(
  { db, clock, config }: Platform,
  { longestSweepMs = LONGEST_SWEEP_MS } = {},
): RetentionUpkeep {
  const { messagesDays, runsDays, auditDays } = config.retention
  const kept: Kept[] = [
    { kind: MESSAGES, days: messagesDays },
    ...[RUNS, EVENTS, CHAINS, ROOTS, GRANTS].map((kind) => ({ kind, days: runsDays })),
    { kind: ENTRIES, days: auditDays },
  ].flatMap(({ kind, days }) => (days === null ? [] : [{ kind, days, pace: createWorkPace() }]))

  /**
   * Deletes all old rows of one kind. Yields between two searches, so that the caller can alternate between kinds. Ends
   * early if another process holds the lock.
   */
  async function* deletion(one: Kept, isOver: () => boolean): AsyncGenerator<void> {
    const before = new Date(clock.now() - one.days * DAY_MS)
    for (let after = `${one.kind.prefix}_`; ; yield) {
      const found = await db.query<OldRow>(search(one.kind, { before, after, most: ROWS_OF_SEARCH }))
      for (const [shared, rows] of Map.groupBy(found, (row) => row.shared)) {
        const isDone = await remove(db, one, { before, shared, ids: rows.map(({ id }) => id) }, isOver)
        if (!isDone) return
      }
      const last = found[ROWS_OF_SEARCH - 1]
      if (last === undefined) return
      after = last.id
    }
  }

  return {
    async sweep(signal) {
      const until = performance.now() + longestSweepMs
      const isOver = () => performance.now() > until || signal?.aborted === true
      let deletions = kept.map((one) => deletion(one, isOver))
      while (deletions.length > 0) {
        const going: typeof deletions = []
        for (const one of deletions) if (!(await one.next()).done) going.push(one)
        deletions = going
      }
      // The next sweep starts with another kind, because one kind can take the whole time of a sweep.
      kept.push(...kept.splice(0, 1))
    },
  }
}

/**
 * Deletes rows in batches. Returns true if all rows were deleted, and false if time ran out or another process held the
 * lock.
 */
async function remove(
  db: Database,
  { kind, pace }: Kept,
  { ids, ...of }: { before: Date; shared: string; ids: string[] },
  isOver: () => boolean,
): Promise<boolean> {
  while (ids.length > 0) {
    if (isOver()) return false
    const few = ids.splice(0, pace.rows())
    const since = performance.now()
    const [turn] = await db.query<{ mine: boolean; done: number }>(removal(kind, { ...of, ids: few }))
    if (turn?.mine !== true) return false
    // Only rows that this process deleted are counted, because other processes may have locked or deleted the rest.
    await pace.after(turn.done, performance.now() - since)
  }
  return true
}
