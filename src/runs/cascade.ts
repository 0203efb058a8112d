import type { Run } from '../generated/prisma/client.ts'
import type { Database } from '../platform/db.ts'
import { ACTIVE_RUNS_SQL } from '../stores/status-sql.ts'

/**
 * Stops all active runs that a run has started directly or indirectly. A stopped run starts no further runs, so the
 * next iteration finds runs that were started in the meantime.
 * @returns the runs that `stop` ended
 */
export async function cascadeOf(
  db: Database,
  runId: string,
  stop: (runId: string) => Promise<Run | null>,
): Promise<Run[]> {
  const stopped: Run[] = []
  for (;;) {
    const living = await db.prisma.$queryRaw<{ id: string }[]>`
      WITH RECURSIVE under AS (
        SELECT id, status FROM "Run" WHERE "parentRunId" = ${runId}
        UNION SELECT r.id, r.status FROM "Run" r JOIN under u ON r."parentRunId" = u.id
      )
      SELECT id FROM under WHERE status IN ${ACTIVE_RUNS_SQL}`
    if (living.length === 0) return stopped
    const ended = await Promise.all(living.map(({ id }) => stop(id)))
    stopped.push(...ended.filter((run) => run !== null))
  }
}
