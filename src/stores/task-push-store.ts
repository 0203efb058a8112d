import type { Prisma, TaskPush } from '../generated/prisma/client.ts'
import type { Tx } from '../platform/db.ts'

// Contains the statements that write the table "TaskPush".

/**
 * Identifies one stored configuration. If another configuration replaces it under the same key, the new one has a
 * different `sealed`, so that writes for the old one have no effect.
 */
type StoredTaskPush = Pick<TaskPush, 'viewerId' | 'taskId' | 'id' | 'sealed'>

/** Stores a configuration. Replaces a configuration with the same key. */
export async function saveTaskPush(tx: Tx, { createdAt, ...push }: TaskPush): Promise<void> {
  const { viewerId, taskId, id, ...rest } = push
  await tx.taskPush.upsert({
    where: { viewerId_taskId_id: { viewerId, taskId, id } },
    create: { ...push, createdAt },
    update: { ...rest, createdAt },
  })
}

/** Records the state of the task that was last sent to the client. */
export async function noteSentState(
  tx: Tx,
  { viewerId, taskId, id, sealed }: StoredTaskPush,
  sentState: string,
): Promise<void> {
  await tx.taskPush.updateMany({ where: { viewerId, taskId, id, sealed }, data: { sentState } })
}

/** Deletes configurations. Returns the number of deleted configurations. */
export async function deleteTaskPushes(tx: Tx, where: Prisma.TaskPushWhereInput): Promise<number> {
  return (await tx.taskPush.deleteMany({ where })).count
}
