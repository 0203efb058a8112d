import type { Run } from '../generated/prisma/client.ts'
import type { Database } from '../platform/db.ts'

/**
 * Stops every living run that a run set off, through any number of hops, until none is left. A stopped run sets off nothing
 * more, so that children made while this goes on are found by the next look. @returns those that `stop` ended
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
      SELECT id FROM under WHERE status IN ('QUEUED', 'RUNNING', 'WAITING_TOOL')`
    if (living.length === 0) return stopped
    const ended = await Promise.all(living.map(({ id }) => stop(id)))
    stopped.push(...ended.filter((run) => run !== null))
  }
}
