import { Prisma, type TaskPush } from '../generated/prisma/client.ts'
import type { Tx } from '../platform/db.ts'

// The statements that write "TaskPush".

/** Names a configuration. */
export type TaskPushKey = Pick<TaskPush, 'viewerId' | 'taskId' | 'id'>

/** How long a process follows a task before it must renew its lease. */
const LEASE = Prisma.sql`interval '60 seconds'`

const isKeySql = ({ viewerId, taskId, id }: TaskPushKey) =>
  Prisma.sql`"viewerId" = ${viewerId} AND "taskId" = ${taskId} AND id = ${id}`

/** Stores a configuration, which this process follows, instead of one with the same key. */
export async function saveTaskPush(tx: Tx, push: Omit<TaskPush, 'leasedUntil' | 'createdAt'>): Promise<void> {
  const { viewerId, taskId, id, tokenId, expiresAt, sealed, sentState } = push
  await tx.$executeRaw`
    INSERT INTO "TaskPush" ("viewerId", "taskId", id, "tokenId", "expiresAt", sealed, "sentState", "leasedUntil")
    VALUES (${viewerId}, ${taskId}, ${id}, ${tokenId}, ${expiresAt}, ${sealed}, ${sentState}, now() + ${LEASE})
    ON CONFLICT ("viewerId", "taskId", id) DO UPDATE SET "tokenId" = EXCLUDED."tokenId", "expiresAt" = EXCLUDED."expiresAt",
      sealed = EXCLUDED.sealed, "sentState" = EXCLUDED."sentState", "leasedUntil" = EXCLUDED."leasedUntil"`
}

/** Leases configurations that no process follows. */
export async function leaseTaskPushes(tx: Tx, most: number): Promise<TaskPush[]> {
  return tx.$queryRaw<TaskPush[]>`
    UPDATE "TaskPush" p SET "leasedUntil" = now() + ${LEASE}
    FROM (
      SELECT "viewerId", "taskId", id FROM "TaskPush" WHERE "leasedUntil" <= now()
      ORDER BY "leasedUntil" LIMIT ${most} FOR UPDATE SKIP LOCKED
    ) due
    WHERE p."viewerId" = due."viewerId" AND p."taskId" = due."taskId" AND p.id = due.id
    RETURNING p.*`
}

/** Renews a lease. Returns false if the configuration was deleted, or replaced by one with another secret. */
export async function renewTaskPush(tx: Tx, key: TaskPushKey & Pick<TaskPush, 'sealed'>): Promise<boolean> {
  const changed = await tx.$executeRaw`
    UPDATE "TaskPush" SET "leasedUntil" = now() + ${LEASE} WHERE ${isKeySql(key)} AND sealed = ${key.sealed}`
  return changed === 1
}

/** Ends a lease, so that another process follows the task. */
export async function releaseTaskPush(tx: Tx, key: TaskPushKey): Promise<void> {
  await tx.$executeRaw`UPDATE "TaskPush" SET "leasedUntil" = now() WHERE ${isKeySql(key)}`
}

export async function noteSentState(tx: Tx, key: TaskPushKey, sentState: string): Promise<void> {
  await tx.$executeRaw`UPDATE "TaskPush" SET "sentState" = ${sentState} WHERE ${isKeySql(key)}`
}

/** Deletes configurations. Returns their number. */
export async function deleteTaskPushes(tx: Tx, where: Prisma.TaskPushWhereInput): Promise<number> {
  return (await tx.taskPush.deleteMany({ where })).count
}
