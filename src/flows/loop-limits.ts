import type { Limits } from '../config.ts'
import type { Tx } from '../platform/db.ts'
import type { Allowance } from '../rules/routing.ts'

/**
 * Limits loops by depth and by the number of runs per root. Takes an advisory lock on the root until the transaction
 * ends, so that the count is exact.
 */
export async function allowance(
  tx: Tx,
  { rootId, depth }: { rootId: string; depth: number },
  { maxChainDepth, maxRootRuns }: Limits,
): Promise<Allowance> {
  if (depth >= maxChainDepth) {
    return { count: 0, reason: `The chain of triggers has reached its maximum depth of ${maxChainDepth}.` }
  }
  await tx.$executeRaw`SELECT pg_advisory_xact_lock(hashtextextended(${rootId}, 0))`
  const [row] = await tx.$queryRaw<{ count: number }[]>`
    SELECT ((SELECT count(*) FROM "Run" WHERE "rootId" = ${rootId}) +
      (SELECT count(*) FROM "InboxEvent" WHERE "rootId" = ${rootId} AND "doneAt" IS NULL AND "runId" IS NULL AND NOT quiet))::int AS count`
  return {
    count: Math.max(0, maxRootRuns - (row?.count ?? 0)),
    reason: `The root of this chain has already started ${maxRootRuns} runs, which is the maximum.`,
  }
}
