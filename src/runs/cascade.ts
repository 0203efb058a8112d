import type { Database } from '../platform/db.ts'

/**
 * Stops every living run that a run set off, through any number of hops, until none is left. A stopped run sets off nothing
 * more, so that children made while this goes on are found by the next look.
 */
export async function cascadeOf(db: Database, runId: string, stop: (runId: string) => Promise<unknown>): Promise<void> {
  for (;;) {
    const living = await db.prisma.$queryRaw<{ id: string }[]>`
      WITH RECURSIVE under AS (
        SELECT id, status FROM "Run" WHERE "parentRunId" = ${runId}
        UNION SELECT r.id, r.status FROM "Run" r JOIN under u ON r."parentRunId" = u.id
      )
      SELECT id FROM under WHERE status IN ('QUEUED', 'RUNNING', 'WAITING_TOOL')`
    if (living.length === 0) return
    await Promise.all(living.map(({ id }) => stop(id)))
  }
}
