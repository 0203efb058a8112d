import { LABEL_NOW } from '../confidence/marks.ts'
import { Prisma, type ToolCall } from '../generated/prisma/client.ts'
import type { Tx } from '../platform/db.ts'
import { HIDDEN_IF_UNHEARD } from './approval.ts'
import { endedWith, type Settlement } from './tool-calls.ts'

// With tool-calls.ts the writer of ToolCall: leases of approved calls, which are RUNNING with
// `carryAt` until they are executed.

/** Lease of a worker on an approved call. */
const CARRY_LEASE = Prisma.sql`interval '10 seconds'`

/**
 * Leases an approved call that no worker has leased. Updates its label, since a space may have
 * become confidential since.
 */
export async function takenInHand(tx: Tx, toolCallId: string): Promise<ToolCall | null> {
  const [call] = await tx.$queryRaw<ToolCall[]>`
    UPDATE "ToolCall" SET "carryAt" = clock_timestamp() + ${CARRY_LEASE}, "carryAttempt" = "carryAttempt" + 1, ${LABEL_NOW}
    WHERE id = ${toolCallId} AND status = 'RUNNING' AND "carryAt" <= clock_timestamp() RETURNING *`
  return call ?? null
}

/** Renews a worker's leases. @returns the ids that it still holds */
export async function keptInHand(tx: Tx, inHand: { id: string; attempt: number }[]): Promise<string[]> {
  const rows = await tx.$queryRaw<{ id: string }[]>`
    UPDATE "ToolCall" c SET "carryAt" = clock_timestamp() + ${CARRY_LEASE}
    FROM unnest(${inHand.map(({ id }) => id)}::text[], ${inHand.map(({ attempt }) => attempt)}::int[]) AS h(id, attempt)
    WHERE c.id = h.id AND c."carryAttempt" = h.attempt AND c.status = 'RUNNING' AND c."carryAt" IS NOT NULL RETURNING c.id`
  return rows.map(({ id }) => id)
}

/** Releases a call, so that any worker may lease it. */
export async function putBack(tx: Tx, { id, attempt }: { id: string; attempt: number }): Promise<void> {
  await tx.$executeRaw`
    UPDATE "ToolCall" SET "carryAt" = now()
    WHERE id = ${id} AND "carryAttempt" = ${attempt} AND status = 'RUNNING' AND "carryAt" IS NOT NULL`
}

/** Stores the result of a leased call. Null: the call was canceled, or another worker has leased it. */
export async function carried(
  tx: Tx,
  { id, attempt }: { id: string; attempt: number },
  settlement: Settlement,
): Promise<ToolCall | null> {
  const [call] = await tx.$queryRaw<ToolCall[]>`
    UPDATE "ToolCall" SET ${endedWith(settlement)}, "carryAt" = NULL, ${HIDDEN_IF_UNHEARD}
    WHERE id = ${id} AND "carryAttempt" = ${attempt} AND status = 'RUNNING' AND "carryAt" IS NOT NULL RETURNING *`
  return call ?? null
}
