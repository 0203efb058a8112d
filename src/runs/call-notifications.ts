import { Prisma } from '../generated/prisma/client.ts'
import type { Tx } from '../platform/db.ts'

/** The event types of notifications to `notifyUrl`. */
export type CallNotice = 'tool_call.waiting' | 'tool_call.claimed' | 'tool_call.escalated' | 'tool_call.decided'

const TIME = Prisma.raw(`'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'`)
const time = (instant: Prisma.Sql) => Prisma.sql`to_char(${instant} AT TIME ZONE 'UTC', ${TIME})`

/** The state of a call `c` in a notification. */
const STATE = Prisma.sql`coalesce(c."approvalState"::text, c.status::text)`

/**
 * Inserts a notification for each call `c` of `source` whose agent has a `notifyUrl`, with the body
 * as it will be signed.
 */
function insertion(source: Prisma.Sql, type: CallNotice): Prisma.Sql {
  return Prisma.sql`
    INSERT INTO "Notification" (id, "agentId", "toolCallId", body)
    SELECT 'ntf_' || replace(gen_random_uuid()::text, '-', ''), c."agentId", c.id, json_build_object(
      'type', ${type}::text, 'timestamp', ${time(Prisma.sql`clock_timestamp()`)}, 'data', json_build_object(
        'toolCallId', c.id, 'toolName', c."toolName", 'agentId', c."agentId", 'runId', c."runId", 'spaceId', c."spaceId",
        'state', ${STATE}, 'expiresAt', ${time(Prisma.sql`c."expiresAt"`)}))::text
    FROM ${source} c JOIN "Agent" a ON a.id = c."agentId" AND a."notifyUrl" IS NOT NULL`
}

/** Inserts a notification with the current state of a call, unless an unsent one has the same type and state. */
export async function noted(tx: Tx, toolCallId: string, type: CallNotice): Promise<void> {
  const call = Prisma.sql`(
    SELECT * FROM "ToolCall" c WHERE id = ${toolCallId} AND NOT EXISTS (
      SELECT 1 FROM "Notification" n WHERE n."toolCallId" = c.id AND n.attempts = 0 AND n.body::jsonb->>'type' = ${type}::text
        AND n.body::jsonb#>>'{data,state}' = ${STATE} FOR NO KEY UPDATE))`
  await tx.$executeRaw(insertion(call, type))
}

/**
 * Part of a WITH: notifies that the approvals of those calls that the part `changed` returns as
 * CANCELED are no longer requested.
 */
export function cancelNoted(changed: string): Prisma.Sql {
  const calls = Prisma.sql`(SELECT * FROM ${Prisma.raw(`"${changed}"`)} WHERE "approvalState" = 'CANCELED')`
  return insertion(calls, 'tool_call.decided')
}

/** Part of a WITH: notifies that the calls returned by the part `changed` wait. */
export function waitNoted(changed: string): Prisma.Sql {
  return Prisma.sql`${insertion(Prisma.raw(`"${changed}"`), 'tool_call.waiting')} RETURNING id`
}
