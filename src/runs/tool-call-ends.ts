import { Prisma, type ToolCall } from '../generated/prisma/client.ts'
import type { Tx } from '../platform/db.ts'
import { CANCELED } from './tool-calls.ts'

// Ends of tool calls whose agent, space, run or message is deleted. With tool-calls.ts the only writer of ToolCall.

/** Cancels the waiting calls of a deleted agent in runs that have ended. */
export function cancelAsked(tx: Tx, agentId: string): Promise<ToolCall[]> {
  return tx.$queryRaw<ToolCall[]>`
    UPDATE "ToolCall" c SET ${CANCELED}
    FROM "Run" r
    WHERE c."agentId" = ${agentId} AND (c.status = 'WAITING' OR c."carryAt" IS NOT NULL) AND r.id = c."runId" AND r.status IN ('COMPLETED', 'FAILED', 'CANCELED')
    RETURNING c.*`
}

/** Lets the calls that wait in a deleted space time out. */
export async function expireShownIn(tx: Tx, spaceId: string): Promise<void> {
  await tx.$executeRaw`UPDATE "ToolCall" SET "expiresAt" = now() WHERE "spaceId" = ${spaceId} AND status = 'WAITING'`
}

/** Condition on a call: its result came from the server, or was approved by people. */
export const TOLD_CALLS = Prisma.sql`(execution IS NULL OR "approvalState" IS NOT NULL)`

/** Part of a WITH: deletes the calls of deleted runs, except those that a message shows. */
export const withRuns = (runIds: Prisma.Sql): Prisma.Sql => Prisma.sql`
  DELETE FROM "ToolCall" c WHERE c."runId" IN (${runIds})
    AND NOT EXISTS (SELECT 1 FROM "Message" m WHERE m.id = c."messageId")`

/** Part of a WITH: deletes the calls shown in deleted messages, if their runs no longer exist. */
export const withMessages = (messageIds: Prisma.Sql): Prisma.Sql => Prisma.sql`
  DELETE FROM "ToolCall" c WHERE c."messageId" IN (${messageIds})
    AND NOT EXISTS (SELECT 1 FROM "Run" r WHERE r.id = c."runId")`
