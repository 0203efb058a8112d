import type { Prisma, TaskPush } from '../generated/prisma/client.ts'
import type { Tx } from '../platform/db.ts'

// The statements that write "TaskPush".

/**
 * Identifies one stored configuration. Writes have no effect once another configuration has the same key: `sealed`
 * differs each time.
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

/** Records the state of which the client was notified last. */
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
