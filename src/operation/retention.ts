import type { Database } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'
import {
  CHAINS,
  ENTRIES,
  EVENTS,
  MESSAGES,
  type OldRow,
  type OldRows,
  ROOTS,
  RUNS,
  removal,
  search,
} from './old-rows.ts'
import { createWorkPace, type WorkPace } from './work-pace.ts'

/** What is older than the settings say is deleted. */
export interface RetentionUpkeep {
  /**
   * Deletes what there is to delete, in small batches with rests, as long as it is this process's turn, and for some seconds at most:
   * who ends the process waits for it.
   */
  sweep(): Promise<void>
}

const LONGEST_SWEEP_MS = 5000
/** As many as the largest batch. */
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
    ...[RUNS, EVENTS, CHAINS, ROOTS].map((kind) => ({ kind, days: runsDays })),
    { kind: ENTRIES, days: auditDays },
  ].flatMap(({ kind, days }) => (days === null ? [] : [{ kind, days, pace: createWorkPace() }]))

  /** Deletes all that is found of a kind, and pauses between two searches for others; ends early where it is not this process's turn. */
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
    async sweep() {
      const until = performance.now() + longestSweepMs
      let deletions = kept.map((one) => deletion(one, () => performance.now() > until))
      while (deletions.length > 0) {
        const going: typeof deletions = []
        for (const one of deletions) if (!(await one.next()).done) going.push(one)
        deletions = going
      }
      // Another kind comes first the next time: one alone may take all of it.
      kept.push(...kept.splice(0, 1))
    },
  }
}

/** Deletes rows batch by batch. @returns whether there was time for all of them, and it was this process's turn */
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
    // Others may have deleted some of them, or hold them: what that took says nothing of as many.
    await pace.after(turn.done, performance.now() - since)
  }
  return true
}
