import type { MessageDeletion, Prisma } from '../generated/prisma/client.ts'
import type { Tx } from '../platform/db.ts'

// Contains the statements that write the table "MessageDeletion". The table lists deleted messages whose text is
// still being removed from other rows.

export type { MessageDeletion }

/** Records that the texts of deleted messages must be removed from rows that were derived from the messages. */
export async function insertDeletions(
  tx: Tx,
  deletions: Pick<MessageDeletion, 'messageId' | 'spaceId' | 'sentAt' | 'runId' | 'texts'>[],
): Promise<void> {
  await tx.messageDeletion.createMany({ data: deletions })
}

/**
 * Records the deletion of a message's copies. The texts to remove are those of the original's deletion, and any
 * different texts of the copies. This function reads the copies' texts from the database, so the caller must not have
 * removed them yet.
 */
export async function insertDeletionsOfCopies(
  tx: Tx,
  { ids, ofId, texts }: { ids: readonly string[]; ofId: string; texts: readonly string[] },
): Promise<void> {
  await tx.$executeRaw`
    WITH original AS MATERIALIZED (SELECT ${[...texts]}::text[] AS texts)
    INSERT INTO "MessageDeletion" ("messageId", "spaceId", "sentAt", "runId", texts, "textsOfId")
    SELECT m.id, m."spaceId", m."createdAt", m."runId", ARRAY(
      SELECT part->>'text' FROM jsonb_array_elements(m.parts) part WHERE part->>'type' = 'text' AND part->>'text' <> ALL(original.texts)
      UNION ALL SELECT v.text FROM "MessageVersion" v WHERE v."messageId" = m.id AND v.text <> ALL(original.texts)), ${ofId}
    FROM "Message" m, original WHERE m.id = ANY(${[...ids]}::text[])`
}

/**
 * Returns the next deleted messages, after the id `after`, whose text must still be removed and that no process has
 * claimed.
 */
export async function openDeletions(tx: Tx, after: string, most: number): Promise<{ id: string }[]> {
  return await tx.$queryRaw<{ id: string }[]>`
    SELECT "messageId" AS id FROM "MessageDeletion"
    WHERE NOT "isDone" AND ("takenUntil" IS NULL OR "takenUntil" < clock_timestamp()) AND "messageId" > ${after}
    ORDER BY 1 LIMIT ${most}`
}

/** Returns the deletions during which a run was active. */
export async function deletionsDuring(tx: Tx, runId: string): Promise<MessageDeletion[]> {
  return withTexts(tx, await tx.messageDeletion.findMany({ where: { living: { has: runId } } }))
}

/** Adds the texts of the original's deletion to each deletion of a copy. */
async function withTexts(tx: Tx, deletions: MessageDeletion[]): Promise<MessageDeletion[]> {
  const ids = [...new Set(deletions.flatMap(({ textsOfId }) => textsOfId ?? []))]
  if (ids.length === 0) return deletions
  const originals = await tx.messageDeletion.findMany({ where: { messageId: { in: ids } } })
  const textsOf = new Map(originals.map(({ messageId, texts }) => [messageId, texts]))
  return deletions.map((deletion) => ({
    ...deletion,
    texts: [...deletion.texts, ...(textsOf.get(deletion.textsOfId ?? '') ?? [])],
  }))
}

/**
 * Claims a deletion for `seconds` seconds. Returns null if another process has claimed the deletion, or if the
 * deletion is complete.
 */
export async function takeDeletion(tx: Tx, messageId: string, seconds: number): Promise<MessageDeletion | null> {
  const [row] = await tx.$queryRaw<MessageDeletion[]>`
    UPDATE "MessageDeletion" SET "takenUntil" = clock_timestamp() + ${seconds} * interval '1 second'
    WHERE "messageId" = ${messageId} AND NOT "isDone" AND ("takenUntil" IS NULL OR "takenUntil" < clock_timestamp()) RETURNING *`
  const [deletion] = await withTexts(tx, row === undefined ? [] : [row])
  return deletion ?? null
}

/** Stores the progress of a claimed deletion. */
export async function saveDeletion(
  tx: Tx,
  messageId: string,
  data: Partial<Pick<MessageDeletion, 'afterId' | 'living' | 'takenUntil'>>,
): Promise<void> {
  await tx.messageDeletion.updateMany({ where: { messageId }, data: data as Prisma.MessageDeletionUpdateInput })
}

/** Ends a deletion after the text has been removed everywhere. */
export async function endDeletion(tx: Tx, messageId: string): Promise<void> {
  await tx.messageDeletion.updateMany({ where: { messageId }, data: { isDone: true } })
  await removeDone(tx)
}

/**
 * Deletes the rows of finished deletions: first those of copies, then those of originals to which no copy refers any
 * more.
 */
export async function removeDone(tx: Tx): Promise<void> {
  await tx.$executeRaw`DELETE FROM "MessageDeletion" WHERE "isDone" AND "textsOfId" IS NOT NULL`
  await tx.$executeRaw`
    DELETE FROM "MessageDeletion" d WHERE d."isDone" AND NOT EXISTS (
      SELECT 1 FROM "MessageDeletion" c WHERE c."textsOfId" = d."messageId")`
}
