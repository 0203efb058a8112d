import type { Prisma, TaskPush } from '../generated/prisma/client.ts'
import type { Tx } from '../platform/db.ts'

// The statements that write "TaskPush".

/** Names one configuration: without effect once another one has its key. `sealed` differs each time that one is stored. */
type StoredTaskPush = Pick<TaskPush, 'viewerId' | 'taskId' | 'id' | 'sealed'>

/** Stores a configuration, instead of one with the same key. */
export async function saveTaskPush(tx: Tx, { createdAt, ...push }: TaskPush): Promise<void> {
  const { viewerId, taskId, id, ...rest } = push
  await tx.taskPush.upsert({
    where: { viewerId_taskId_id: { viewerId, taskId, id } },
    create: { ...push, createdAt },
    update: { ...rest, createdAt },
  })
}

/** Notes the state of which the client was notified. */
export async function noteSentState(
  tx: Tx,
  { viewerId, taskId, id, sealed }: StoredTaskPush,
  sentState: string,
): Promise<void> {
  await tx.taskPush.updateMany({ where: { viewerId, taskId, id, sealed }, data: { sentState } })
}

/** Deletes configurations. Returns their number. */
export async function deleteTaskPushes(tx: Tx, where: Prisma.TaskPushWhereInput): Promise<number> {
  return (await tx.taskPush.deleteMany({ where })).count
}
