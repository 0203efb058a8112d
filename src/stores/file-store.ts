import { type File, Prisma } from '../generated/prisma/client.ts'
import { type Changes, partName } from '../platform/changes.ts'
import type { Tx } from '../platform/db.ts'

// The statements that write "File", "FileText", "FileObject", "UploadedBytes", "FileUpload" and "FileStorageUse". Deleting a
// message deletes its files by the foreign key.

export type NewFile = Omit<File, 'createdAt' | 'messageId' | 'spaceId'> & {
  createdAt: Date
  /** The text that was found in it; null for none. */
  text: string | null
}

/** Inserts a file that no message carries yet. */
export async function insertFile(tx: Tx, { text, ...file }: NewFile): Promise<File> {
  const row = await tx.file.create({ data: file })
  if (text !== null) await tx.fileText.create({ data: { fileId: file.id, text } })
  return row
}

/** Inserts a file, with its text, as one that the message of a part of the statement carries. */
export function insertSentFileSql({ text, ...file }: NewFile, message: string): Changes {
  const { id, ownerId, name, mediaType, size, hash, width, height, thumbnailHash, createdAt } = file
  return {
    file: Prisma.sql`
      INSERT INTO "File" (id, "ownerId", name, "mediaType", size, hash, width, height, "thumbnailHash", "createdAt", "messageId", "spaceId")
      SELECT ${id}, ${ownerId}, ${name}, ${mediaType}, ${size}::int, ${hash}, ${width}::int, ${height}::int, ${thumbnailHash}, ${createdAt}::timestamptz,
        id, "spaceId" FROM ${partName(message)} RETURNING id`,
    fileText: Prisma.sql`INSERT INTO "FileText" ("fileId", text) SELECT id, ${text} FROM file WHERE ${text}::text IS NOT NULL`,
  }
}

/** Attaches files that the sender has uploaded to a message. Returns how many were neither sent before nor deleted. */
export async function attachFiles(
  tx: Tx,
  { id, spaceId, senderId }: { id: string; spaceId: string; senderId: string },
  fileIds: readonly string[],
): Promise<number> {
  return tx.$executeRaw`
    UPDATE "File" SET "messageId" = ${id}, "spaceId" = ${spaceId}
    WHERE id = ANY(${[...fileIds]}::text[]) AND "ownerId" = ${senderId} AND "messageId" IS NULL`
}

/** Deletes the files of messages whose content is removed. Their bytes follow in `sweepObjects`. */
export async function deleteFilesOfMessages(tx: Tx, messageIds: readonly string[]): Promise<void> {
  await tx.file.deleteMany({ where: { messageId: { in: [...messageIds] } } })
}

/**
 * Records that the bytes of a hash are about to be stored. Waits for a deletion of the same object; afterwards none begins
 * for an hour.
 */
export const touchObjectSql = (hash: string, size: number): Prisma.Sql => Prisma.sql`
  INSERT INTO "FileObject" (hash, size, "storedAt") VALUES (${hash}, ${size}::int, now())
  ON CONFLICT (hash) DO UPDATE SET "storedAt" = now()`

/** Counts bytes that an owner has uploaded on a day (UTC). Returns false, without counting, if they would exceed `most`. */
export async function countUploadedBytes(
  tx: Tx,
  { ownerId, day, bytes, most }: { ownerId: string; day: string; bytes: number; most: number },
): Promise<boolean> {
  const counted = await tx.$executeRaw`
    INSERT INTO "UploadedBytes" ("ownerId", day, bytes) SELECT ${ownerId}, ${day}::date, ${bytes}::bigint WHERE ${bytes}::bigint <= ${most}::bigint
    ON CONFLICT ("ownerId", day) DO UPDATE SET bytes = "UploadedBytes".bytes + excluded.bytes
    WHERE "UploadedBytes".bytes + excluded.bytes <= ${most}::bigint`
  return counted > 0
}

/** Records which storage a process uses now. */
export const noteStorageUseSql = (process: number, storageId: string): Prisma.Sql => Prisma.sql`
  INSERT INTO "FileStorageUse" (process, "storageId", "seenAt") VALUES (${process}::int, ${storageId}, now())
  ON CONFLICT (process) DO UPDATE SET "storageId" = excluded."storageId", "seenAt" = now()`

export const endStorageUseSql = (process: number): Prisma.Sql =>
  Prisma.sql`DELETE FROM "FileStorageUse" WHERE process = ${process}::int`
