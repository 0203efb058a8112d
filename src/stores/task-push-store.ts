import { Prisma, type TaskPush } from '../generated/prisma/client.ts'
import type { Tx } from '../platform/db.ts'

// The statements that write "TaskPush".

/** Identifies a configuration that a process follows: it has no effect once another process has the lease, or another configuration has the key. */
export type TaskPushLease = Pick<TaskPush, 'viewerId' | 'taskId' | 'id' | 'leaseId'>

/** How long a process follows a task before it must renew its lease. */
const LEASE = Prisma.sql`interval '60 seconds'`

const NEW_LEASE = Prisma.sql`gen_random_uuid()::text`

const isLeasedSql = ({ viewerId, taskId, id, leaseId }: TaskPushLease) =>
  Prisma.sql`"viewerId" = ${viewerId} AND "taskId" = ${taskId} AND id = ${id} AND "leaseId" = ${leaseId}`

/** Stores a configuration with a new lease of this process, replacing one with the same key. */
export async function saveTaskPush(
  tx: Tx,
  push: Omit<TaskPush, 'leasedUntil' | 'leaseId' | 'createdAt'>,
): Promise<void> {
  const { viewerId, taskId, id, tokenId, expiresAt, sealed, sentState } = push
  await tx.$executeRaw`
    INSERT INTO "TaskPush"
      ("viewerId", "taskId", id, "tokenId", "expiresAt", sealed, "sentState", "leasedUntil", "leaseId", "createdAt")
    VALUES
      (${viewerId}, ${taskId}, ${id}, ${tokenId}, ${expiresAt}, ${sealed}, ${sentState}, now() + ${LEASE}, ${NEW_LEASE}, now())
    ON CONFLICT ("viewerId", "taskId", id) DO UPDATE SET
      "tokenId" = EXCLUDED."tokenId", "expiresAt" = EXCLUDED."expiresAt", sealed = EXCLUDED.sealed,
      "sentState" = EXCLUDED."sentState", "leasedUntil" = EXCLUDED."leasedUntil", "leaseId" = EXCLUDED."leaseId",
      "createdAt" = EXCLUDED."createdAt"`
}

/** Leases configurations that no process follows, except those of leases that this process has. */
export async function leaseTaskPushes(
  tx: Tx,
  { most, heldIds }: { most: number; heldIds: readonly string[] },
): Promise<TaskPush[]> {
  return tx.$queryRaw<TaskPush[]>`
    UPDATE "TaskPush" p SET "leasedUntil" = now() + ${LEASE}, "leaseId" = ${NEW_LEASE}
    FROM (
      SELECT "viewerId", "taskId", id FROM "TaskPush"
      WHERE "leasedUntil" <= now() AND "leaseId" <> ALL (${heldIds}::text[])
      ORDER BY "leasedUntil" LIMIT ${most} FOR UPDATE SKIP LOCKED
    ) due
    WHERE p."viewerId" = due."viewerId" AND p."taskId" = due."taskId" AND p.id = due.id
    RETURNING p.*`
}

/** Renews a lease, even one that has expired, if nobody has taken it over. Returns whether this process has it. */
export async function renewTaskPush(tx: Tx, lease: TaskPushLease): Promise<boolean> {
  const changed = await tx.$executeRaw`
    UPDATE "TaskPush" SET "leasedUntil" = now() + ${LEASE} WHERE ${isLeasedSql(lease)}`
  return changed === 1
}

/** Ends a lease, so that a process follows the task again after this many seconds. */
export async function releaseTaskPush(tx: Tx, lease: TaskPushLease, afterSeconds: number): Promise<void> {
  await tx.$executeRaw`
    UPDATE "TaskPush" SET "leasedUntil" = now() + make_interval(secs => ${afterSeconds}), "leaseId" = ${NEW_LEASE}
    WHERE ${isLeasedSql(lease)}`
}

/** Records the state of which the client was notified. Returns whether this process has the lease. */
export async function noteSentState(tx: Tx, lease: TaskPushLease, sentState: string): Promise<boolean> {
  const changed = await tx.$executeRaw`
    UPDATE "TaskPush" SET "sentState" = ${sentState} WHERE ${isLeasedSql(lease)}`
  return changed === 1
}

/** Deletes configurations. Returns their number. */
export async function deleteTaskPushes(tx: Tx, where: Prisma.TaskPushWhereInput): Promise<number> {
  return (await tx.taskPush.deleteMany({ where })).count
}
