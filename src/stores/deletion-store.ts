import type { MessageDeletion, Prisma } from '../generated/prisma/client.ts'
import type { Tx } from '../platform/db.ts'

// The only writer of MessageDeletion: messages that were deleted, and whose text is still being removed elsewhere.

export type { MessageDeletion }

/** Records that the texts of deleted messages must be removed from rows that were derived from them. */
export async function insertDeletions(
  tx: Tx,
  deletions: Pick<MessageDeletion, 'messageId' | 'spaceId' | 'sentAt' | 'runId' | 'texts'>[],
): Promise<void> {
  await tx.messageDeletion.createMany({ data: deletions })
}

/** The ids of all messages whose text must still be removed and that no process has claimed. */
export async function openDeletions(tx: Tx): Promise<string[]> {
  const rows = await tx.$queryRaw<{ messageId: string }[]>`
    SELECT "messageId" FROM "MessageDeletion" WHERE "takenUntil" IS NULL OR "takenUntil" < clock_timestamp() ORDER BY 1`
  return rows.map(({ messageId }) => messageId)
}

/** The deletions during which a run was active. */
export function deletionsDuring(tx: Tx, runId: string): Promise<MessageDeletion[]> {
  return tx.messageDeletion.findMany({ where: { living: { has: runId } } })
}

/** Claims a deletion for `seconds`; null if another process has claimed the deletion, or it is done. */
export async function takeDeletion(tx: Tx, messageId: string, seconds: number): Promise<MessageDeletion | null> {
  const [row] = await tx.$queryRaw<MessageDeletion[]>`
    UPDATE "MessageDeletion" SET "takenUntil" = clock_timestamp() + ${seconds} * interval '1 second'
    WHERE "messageId" = ${messageId} AND ("takenUntil" IS NULL OR "takenUntil" < clock_timestamp()) RETURNING *`
  return row ?? null
}

/** Writes the progress of a claimed deletion. */
export async function saveDeletion(
  tx: Tx,
  messageId: string,
  data: Partial<Pick<MessageDeletion, 'afterId' | 'living' | 'takenUntil'>>,
): Promise<void> {
  await tx.messageDeletion.updateMany({ where: { messageId }, data: data as Prisma.MessageDeletionUpdateInput })
}

/** Ends a deletion: the text has been removed everywhere. */
export async function endDeletion(tx: Tx, messageId: string): Promise<void> {
  await tx.messageDeletion.deleteMany({ where: { messageId } })
}
