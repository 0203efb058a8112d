import { Prisma } from '../generated/prisma/client.ts'
import { newId } from '../lib/ids.ts'
import { type JsonObject, jsonbText } from '../lib/json.ts'
import type { Tx } from '../platform/db.ts'

// Contains the statements that write the table "AuditEntry".

/** An action to be recorded in the audit log: a request that changes something. */
export interface Deed {
  /** The human or token that acted; null for the operator. */
  actorId: string | null
  serviceName: string | null
  action: string
  /**
   * The id of the object of the action. Null if the object does not exist yet; its id is then read from the result of
   * the transaction.
   */
  targetId: string | null
  /** Must not contain content or secrets. */
  detail: JsonObject
}

/** Writes an audit entry about an action, or about the refusal of the action, in the caller's transaction. */
export async function noteDeed(tx: Tx, deed: Deed, { refused = false } = {}): Promise<void> {
  const { actorId, serviceName, action, targetId, detail } = deed
  await tx.$executeRaw`
    INSERT INTO "AuditEntry" (id, "actorId", "serviceName", action, "targetId", detail, refused)
    VALUES (${newId('aud')}, ${actorId}, ${serviceName}, ${action}, ${targetId}, ${jsonbText(detail)}::jsonb, ${refused})`
}

/**
 * Returns a CTE for a fenced write (runs/hold.ts). The CTE writes audit entries for the objects on this server that a
 * tool of the agent has changed.
 */
export function insertToolEntriesSql(toolCallId: string, targetIds: readonly string[]): Prisma.Sql {
  return Prisma.sql`
    INSERT INTO "AuditEntry" (id, "actorId", action, "targetId", detail)
    SELECT t.id, h."agentId", 'tool:' || c."toolName", t."targetId", jsonb_build_object('runId', h."runId", 'toolCallId', c.id)
    FROM held h, "ToolCall" c, unnest(${targetIds.map(() => newId('aud'))}::text[], ${[...targetIds]}::text[]) AS t(id, "targetId")
    WHERE c.id = ${toolCallId}`
}
