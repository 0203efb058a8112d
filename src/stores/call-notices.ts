import { Prisma } from '../generated/prisma/client.ts'
import { enqueueSql } from '../jobs/enqueue-sql.ts'
import { SEND_NOTICE } from '../jobs/queues.ts'
import type { Tx } from '../platform/db.ts'

/** The event types of notifications to `notifyUrl`. */
export type CallNotice = 'tool_call.waiting' | 'tool_call.claimed' | 'tool_call.escalated' | 'tool_call.decided'

const TIME = Prisma.raw(`'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'`)
const time = (instant: Prisma.Sql) => Prisma.sql`to_char(${instant} AT TIME ZONE 'UTC', ${TIME})`

/** The state of a call `c`, as the notification shows it. */
const STATE = Prisma.sql`coalesce(c."approvalState"::text, c.status::text)`

/**
 * Enqueues a notification for each call `c` of `source` whose agent has a `notifyUrl`. The job contains the exact
 * body that will be signed.
 */
function enqueueNoticesSql(source: Prisma.Sql, type: CallNotice): Prisma.Sql {
  const body = Prisma.sql`json_build_object(
    'type', ${type}::text, 'timestamp', ${time(Prisma.sql`clock_timestamp()`)}, 'data', json_build_object(
      'toolCallId', c.id, 'toolName', c."toolName", 'agentId', c."agentId", 'runId', c."runId", 'spaceId', c."spaceId",
      'state', ${STATE}, 'expiresAt', ${time(Prisma.sql`c."expiresAt"`)}))::text`
  return enqueueSql(
    SEND_NOTICE,
    Prisma.sql`
      SELECT c.id AS key, c.id AS subject, jsonb_build_object(
        'id', 'ntf_' || replace(gen_random_uuid()::text, '-', ''), 'agentId', c."agentId", 'toolCallId', c.id, 'body', ${body}) AS data
      FROM ${source} c JOIN "Agent" a ON a.id = c."agentId" AND a."notifyUrl" IS NOT NULL`,
  )
}

/** Deletes and returns a notification that a version before 0.3 has left in the table "Notification". */
export const takeFormerNoticeSql = (id: string): Prisma.Sql =>
  Prisma.sql`DELETE FROM "Notification" WHERE id = ${id} RETURNING *`

/**
 * Enqueues a notification with the current state of a call, unless a notification with the same type and state is
 * still unsent.
 */
export async function enqueueNotice(tx: Tx, toolCallId: string, type: CallNotice): Promise<void> {
  const call = Prisma.sql`(
    SELECT * FROM "ToolCall" c WHERE id = ${toolCallId} AND NOT EXISTS (
      SELECT 1 FROM job n WHERE n.name = ${SEND_NOTICE.name} AND n.singleton_key = c.id AND n.state = 'created'
        AND n.policy = 'key_strict_fifo' AND NOT n.blocked AND (n.data->>'body')::jsonb->>'type' = ${type}::text
        AND (n.data->>'body')::jsonb#>>'{data,state}' = ${STATE} FOR NO KEY UPDATE))`
  await tx.$executeRaw(enqueueNoticesSql(call, type))
}

/**
 * Returns a CTE that enqueues a notification for each call that the CTE `changed` returns as CANCELED. Nobody needs
 * to approve these calls any more.
 */
export function cancelNoticesSql(changed: string): Prisma.Sql {
  const calls = Prisma.sql`(SELECT * FROM ${Prisma.raw(`"${changed}"`)} WHERE "approvalState" = 'CANCELED')`
  return enqueueNoticesSql(calls, 'tool_call.decided')
}

/** Returns a CTE that enqueues a notification for each call that the CTE `changed` returns and that now waits. */
export function waitNoticesSql(changed: string): Prisma.Sql {
  return Prisma.sql`${enqueueNoticesSql(Prisma.raw(`"${changed}"`), 'tool_call.waiting')} RETURNING id`
}
