import { Prisma, type ToolCall } from '../generated/prisma/client.ts'
import type { Tx } from '../platform/db.ts'
import { CANCELED } from './tool-calls.ts'

// What becomes of tool calls when what they belong to is no more: beside tool-calls.ts, the only writer of ToolCall.

/** What an agent that is no more had asked somebody outside, or people to decide, in runs that are over. */
export function cancelAsked(tx: Tx, agentId: string): Promise<ToolCall[]> {
  return tx.$queryRaw<ToolCall[]>`
    UPDATE "ToolCall" c SET ${CANCELED}
    FROM "Run" r
    WHERE c."agentId" = ${agentId} AND (c.status = 'WAITING' OR c."carryAt" IS NOT NULL) AND r.id = c."runId" AND r.status IN ('COMPLETED', 'FAILED', 'CANCELED')
    RETURNING c.*`
}

/** What waits for an answer of a space that is no more waits no longer: its time is up. */
export async function expireShownIn(tx: Tx, spaceId: string): Promise<void> {
  await tx.$executeRaw`UPDATE "ToolCall" SET "expiresAt" = now() WHERE "spaceId" = ${spaceId} AND status = 'WAITING'`
}

/** A condition on a call: what came of it was said by the server itself, or by it together with others. */
export const TOLD_CALLS = Prisma.sql`(execution IS NULL OR "approvalState" IS NOT NULL)`

/** As part of a WITH: the calls of runs that are deleted, but for those that show in a message. */
export const withRuns = (runIds: Prisma.Sql): Prisma.Sql => Prisma.sql`
  DELETE FROM "ToolCall" c WHERE c."runId" IN (${runIds})
    AND NOT EXISTS (SELECT 1 FROM "Message" m WHERE m.id = c."messageId")`

/** As part of a WITH: the calls that showed in messages which are deleted, and whose runs are no more. */
export const withMessages = (messageIds: Prisma.Sql): Prisma.Sql => Prisma.sql`
  DELETE FROM "ToolCall" c WHERE c."messageId" IN (${messageIds})
    AND NOT EXISTS (SELECT 1 FROM "Run" r WHERE r.id = c."runId")`
