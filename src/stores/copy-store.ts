import { copiedId } from '../lib/copied-id.ts'
import type { Tx } from '../platform/db.ts'
import { TODAY } from './run-store.ts'

// The only writer of CopyOrigin: the first original of each copied agent, copied space and repeated run's root. The original and its
// copies are a family: they share budgets (the SQL functions `budgetState` and `reserveBudget`), and deletions reach all of them.

/** Records the copies of agents in a new space. */
export async function recordCopiedAgents(tx: Tx, agentIds: readonly string[], intoId: string): Promise<void> {
  for (const id of agentIds) await recordCopy(tx, { id: copiedId(id, intoId), ofId: id })
}

/**
 * Records a copy of an agent, space or root. Forgets relatives that are gone and have used nothing today, so that a family
 * stays small.
 */
export async function recordCopy(tx: Tx, { id, ofId }: { id: string; ofId: string }): Promise<void> {
  await tx.$executeRaw`
    INSERT INTO "CopyOrigin" ("copyId", "originId")
    VALUES (${id}, coalesce((SELECT "originId" FROM "CopyOrigin" WHERE "copyId" = ${ofId}), ${ofId}))`
  await tx.$executeRaw`
    DELETE FROM "CopyOrigin" o WHERE o."originId" = (SELECT "originId" FROM "CopyOrigin" WHERE "copyId" = ${id}) AND o."copyId" <> ${id}
      AND NOT EXISTS (SELECT 1 FROM "Agent" a WHERE a.id = o."copyId") AND NOT EXISTS (SELECT 1 FROM "Space" s WHERE s.id = o."copyId")
      AND NOT EXISTS (SELECT 1 FROM "Run" r WHERE r."rootId" = o."copyId")
      AND NOT EXISTS (SELECT 1 FROM "DailyUsage" d WHERE d.day = ${TODAY} AND (d."agentId" = o."copyId" OR d."spaceId" = o."copyId"))`
}

/** Returns the ids of these agents or spaces with the ids of their originals and of all copies of these, in order. */
export async function familyOf(tx: Tx, ids: readonly string[]): Promise<string[]> {
  const rows = await tx.$queryRaw<{ id: string }[]>`
    SELECT DISTINCT member AS id FROM unnest(${[...ids]}::text[]) given(id), unnest("copyFamily"(given.id)) member ORDER BY 1`
  return rows.map(({ id }) => id)
}
