import { copiedId } from '../lib/copied-id.ts'
import type { Tx } from '../platform/db.ts'
import { TODAY } from './run-store.ts'

// Contains the statements that write the table "CopyOrigin". The table records the originals of copied agents, of
// copied spaces, and of the roots of repeated runs. An original and its copies share budgets (see the SQL function
// `budgetFamily`). A deletion in an original also applies to its copies; a deletion in a copy does not apply to the
// original.

/** Records the copies of agents in a new space. */
export async function recordCopiedAgents(
  tx: Tx,
  agentIds: readonly string[],
  { intoId, ownerId }: { intoId: string; ownerId: string | null },
): Promise<void> {
  for (const id of agentIds) await recordCopy(tx, { id: copiedId(id, intoId), ofId: id, ownerId })
}

interface NewCopy {
  id: string
  ofId: string
  /** The human who creates the copy; null for the operator. */
  ownerId: string | null
}

/**
 * Records a copy of an agent, space or root. To limit the number of rows per original, removes the rows of deleted
 * copies that have no copies of their own, no runs, and no usage today.
 */
export async function recordCopy(tx: Tx, { id, ofId, ownerId }: NewCopy): Promise<void> {
  await tx.$executeRaw`
    INSERT INTO "CopyOrigin" ("copyId", "fromId", "originId", "ownerId")
    VALUES (${id}, ${ofId}, coalesce((SELECT "originId" FROM "CopyOrigin" WHERE "copyId" = ${ofId}), ${ofId}), ${ownerId})`
  await tx.$executeRaw`
    DELETE FROM "CopyOrigin" o WHERE o."originId" = (SELECT "originId" FROM "CopyOrigin" WHERE "copyId" = ${id}) AND o."copyId" <> ${id}
      AND NOT EXISTS (SELECT 1 FROM "Agent" a WHERE a.id = o."copyId") AND NOT EXISTS (SELECT 1 FROM "Space" s WHERE s.id = o."copyId")
      AND NOT EXISTS (SELECT 1 FROM "Run" r WHERE r."rootId" = o."copyId") AND NOT EXISTS (SELECT 1 FROM "Run" r WHERE r."agentId" = o."copyId")
      AND NOT EXISTS (SELECT 1 FROM "CopyOrigin" c WHERE c."fromId" = o."copyId")
      AND NOT EXISTS (SELECT 1 FROM "DailyUsage" d WHERE d.day = ${TODAY} AND (d."agentId" = o."copyId" OR d."spaceId" = o."copyId"))`
}

/**
 * Returns the given ids of agents or spaces, and the ids of all their direct and indirect copies, in ascending order.
 */
export async function withCopies(tx: Tx, ids: readonly string[]): Promise<string[]> {
  const rows = await tx.$queryRaw<{ id: string }[]>`
    WITH RECURSIVE found AS (
      SELECT id COLLATE "C" AS id FROM unnest(${[...ids]}::text[]) given(id)
      UNION SELECT o."copyId" FROM "CopyOrigin" o JOIN found f ON o."fromId" = f.id
    ) SELECT id FROM found ORDER BY 1`
  return rows.map(({ id }) => id)
}
