import type { Run } from '../generated/prisma/client.ts'
import type { Database } from '../platform/db.ts'
import { ACTIVE_RUNS_SQL } from '../stores/status-sql.ts'
import { forEach } from './due.ts'

/**
 * Stops all active runs that a run started, directly or not. A stopped run does not start other runs, so runs that were
 * started before they could be stopped are found in the next iteration. Calls `stop` for a few runs at a time, because
 * each call uses a database connection.
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
    await forEach(
      living.map(({ id }) => id),
      async (id) => {
        const ended = await stop(id)
        if (ended !== null) stopped.push(ended)
      },
    )
  }
}
