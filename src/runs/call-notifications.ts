import { Prisma } from '../generated/prisma/client.ts'
import type { Tx } from '../platform/db.ts'

/** What an agent's `notifyUrl` is told of a call. */
export type CallNotice = 'tool_call.waiting' | 'tool_call.claimed' | 'tool_call.escalated' | 'tool_call.decided'

const TIME = Prisma.raw(`'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'`)
const time = (instant: Prisma.Sql) => Prisma.sql`to_char(${instant} AT TIME ZONE 'UTC', ${TIME})`

/** What a notice says of the state of a call `c`. */
const STATE = Prisma.sql`coalesce(c."approvalState"::text, c.status::text)`

/** Inserts a notice of each call `c` of `source` whose agent has a `notifyUrl`: the body as it will be signed. */
function insertion(source: Prisma.Sql, type: CallNotice): Prisma.Sql {
  return Prisma.sql`
    INSERT INTO "Notification" (id, "agentId", "toolCallId", body)
    SELECT 'ntf_' || replace(gen_random_uuid()::text, '-', ''), c."agentId", c.id, json_build_object(
      'type', ${type}::text, 'timestamp', ${time(Prisma.sql`clock_timestamp()`)}, 'data', json_build_object(
        'toolCallId', c.id, 'toolName', c."toolName", 'agentId', c."agentId", 'runId', c."runId", 'spaceId', c."spaceId",
        'state', ${STATE}, 'expiresAt', ${time(Prisma.sql`c."expiresAt"`)}))::text
    FROM ${source} c JOIN "Agent" a ON a.id = c."agentId" AND a."notifyUrl" IS NOT NULL`
}

/**
 * A notice of a call as it stands in this transaction. One of the same kind and state that nobody has begun to send says the same:
 * then none is added.
 */
export async function noted(tx: Tx, toolCallId: string, type: CallNotice): Promise<void> {
  const call = Prisma.sql`(
    SELECT * FROM "ToolCall" c WHERE id = ${toolCallId} AND NOT EXISTS (
      SELECT 1 FROM "Notification" n WHERE n."toolCallId" = c.id AND n.attempts = 0 AND n.body::jsonb->>'type' = ${type}::text
        AND n.body::jsonb#>>'{data,state}' = ${STATE} FOR NO KEY UPDATE))`
  await tx.$executeRaw(insertion(call, type))
}

/** As a part of a WITH: that nobody is asked any more to decide on those of the calls which `changed`, another part, answers with. */
export function cancelNoted(changed: string): Prisma.Sql {
  const calls = Prisma.sql`(SELECT * FROM ${Prisma.raw(`"${changed}"`)} WHERE "approvalState" = 'CANCELED')`
  return insertion(calls, 'tool_call.decided')
}

/** As a part of a WITH: that the call waits which `changed`, another part, answers with. */
export function waitNoted(changed: string): Prisma.Sql {
  return Prisma.sql`${insertion(Prisma.raw(`"${changed}"`), 'tool_call.waiting')} RETURNING id`
}
