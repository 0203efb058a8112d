import { type File, type FileUpload, Prisma } from '../generated/prisma/client.ts'
import { jsonbText } from '../lib/json.ts'
import { type Changes, partName } from '../platform/changes.ts'
import type { Tx } from '../platform/db.ts'

// Contains the statements that write the tables "File", "FileText", "FileObject", "UploadedBytes", "FileUpload" and
// "FileStorageUse". When a message is deleted, a foreign key also deletes its files.

export type NewFile = Omit<File, 'createdAt' | 'messageId' | 'spaceId' | 'callId'> & {
  createdAt: Date
  /** The text that was extracted from the file; null if there is none. */
  text: string | null
}

/** Inserts a file that is not yet attached to a message. */
export async function insertFile(tx: Tx, { text, ...file }: NewFile): Promise<File> {
  const row = await tx.file.create({ data: file })
  if (text !== null) await tx.fileText.create({ data: { fileId: file.id, text } })
  return row
}

/**
 * Inserts the files that a call has returned, in the statement that settles the call. `call`: the name of the CTE
 * that returns the id of the call. Files that an earlier attempt has stored have the same ids and are kept.
 */
export function insertFilesOfCallSql(files: readonly NewFile[], call: string): Changes {
  return {
    callFiles: Prisma.sql`
      INSERT INTO "File" (id, "ownerId", name, "mediaType", size, hash, width, height, "thumbnailHash", "createdAt", "callId")
      SELECT f.id, f."ownerId", f.name, f."mediaType", f.size, f.hash, f.width, f.height, f."thumbnailHash", f."createdAt", call.id
      FROM ${partName(call)} call, jsonb_to_recordset(${jsonbText(files)}::jsonb) AS f(id text, "ownerId" text, name text, "mediaType" text,
        size int, hash text, width int, height int, "thumbnailHash" text, "createdAt" timestamptz)
      ON CONFLICT (id) DO NOTHING RETURNING id`,
    callFileTexts: Prisma.sql`
      INSERT INTO "FileText" ("fileId", text) SELECT f.id, f.text
      FROM "callFiles" JOIN jsonb_to_recordset(${jsonbText(files)}::jsonb) AS f(id text, text text) USING (id) WHERE f.text IS NOT NULL`,
  }
}

/** Inserts a file with its text, and attaches the file to the message that the CTE `message` returns. */
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

/**
 * Attaches files that the sender has uploaded to a message. Returns how many of the files could be attached. Files
 * that were already sent or deleted are not attached.
 */
export async function attachFiles(
  tx: Tx,
  { id, spaceId, senderId }: { id: string; spaceId: string; senderId: string },
  fileIds: readonly string[],
): Promise<number> {
  return tx.$executeRaw`
    UPDATE "File" SET "messageId" = ${id}, "spaceId" = ${spaceId}
    WHERE id = ANY(${[...fileIds]}::text[]) AND "ownerId" = ${senderId} AND "messageId" IS NULL AND "callId" IS NULL`
}

/** Returns the ids of the files of messages. */
export async function filesOfMessages(tx: Tx, messageIds: readonly string[]): Promise<string[]> {
  const rows = await tx.file.findMany({ where: { messageId: { in: [...messageIds] } }, select: { id: true } })
  return rows.map(({ id }) => id)
}

/** Returns the ids of the files that calls have returned. */
export async function filesOfCalls(tx: Tx, callIds: readonly string[]): Promise<string[]> {
  const rows = await tx.file.findMany({ where: { callId: { in: [...callIds] } }, select: { id: true } })
  return rows.map(({ id }) => id)
}

/**
 * Deletes the files of messages whose content is being removed. `operation/file-sweep.ts` deletes their bytes later.
 */
export async function deleteFilesOfMessages(tx: Tx, messageIds: readonly string[]): Promise<void> {
  await tx.file.deleteMany({ where: { messageId: { in: [...messageIds] } } })
}

/**
 * Records that an object, the stored bytes with this hash, is about to be written. Waits while the object is being
 * deleted. For the next hour, nothing deletes the object.
 */
export const touchObjectSql = (hash: string, size: number): Prisma.Sql => Prisma.sql`
  INSERT INTO "FileObject" (hash, size, "storedAt") VALUES (${hash}, ${size}::int, now())
  ON CONFLICT (hash) DO UPDATE SET "storedAt" = now()`

/** Protects the objects of these files from deletion for an hour, as `touchObjectSql` does. */
export async function touchObjectsOf(tx: Tx, ids: Prisma.Sql): Promise<void> {
  await tx.$executeRaw`
    UPDATE "FileObject" SET "storedAt" = now() WHERE hash IN (
      SELECT unnest(ARRAY[f.hash, f."thumbnailHash"]) FROM "File" f WHERE f.id IN (${ids}))`
}

/**
 * Counts bytes that an owner has uploaded on a day (UTC). If the sum would exceed `most`, counts nothing and returns
 * false.
 */
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

/** Records which storage a process uses. */
export const noteStorageUseSql = (process: number, storageId: string): Prisma.Sql => Prisma.sql`
  INSERT INTO "FileStorageUse" (process, "storageId", "seenAt") VALUES (${process}::int, ${storageId}, now())
  ON CONFLICT (process) DO UPDATE SET "storageId" = excluded."storageId", "seenAt" = now()`

export const endStorageUseSql = (process: number): Prisma.Sql =>
  Prisma.sql`DELETE FROM "FileStorageUse" WHERE process = ${process}::int`

/** Deletes files that were uploaded before a given time and have not been sent. */
export async function deleteUnsentFiles(tx: Tx, before: Date, most: number): Promise<void> {
  await tx.$executeRaw`
    DELETE FROM "File" WHERE id IN (
      SELECT id FROM "File" WHERE "messageId" IS NULL AND "callId" IS NULL AND "createdAt" < ${before} ORDER BY id LIMIT ${most})
    AND "messageId" IS NULL AND "callId" IS NULL`
}

/**
 * Deletes an owner's files that have not been sent. Ends the owner's unfinished uploads; the next sweep deletes their
 * parts.
 */
export async function deleteUnsentFilesOf(tx: Tx, ownerId: string): Promise<void> {
  await tx.file.deleteMany({ where: { ownerId, messageId: null, callId: null } })
  await tx.fileUpload.updateMany({ where: { ownerId }, data: { name: '', expiresAt: new Date(0) } })
}

/** Selects objects that no file uses and whose last upload was at least an hour ago. */
export const unneededObjectsSql = (most: number): Prisma.Sql => Prisma.sql`
  SELECT hash FROM "FileObject" o WHERE ${IS_UNNEEDED} ORDER BY "storedAt" LIMIT ${most}`

const IS_UNNEEDED = Prisma.sql`o."storedAt" < now() - interval '1 hour'
  AND NOT EXISTS (SELECT 1 FROM "File" f WHERE f.hash = o.hash) AND NOT EXISTS (SELECT 1 FROM "File" f WHERE f."thumbnailHash" = o.hash)`

/**
 * Deletes the row of an object that no file uses. The row stays locked until the transaction ends. Returns false if a
 * file now uses the object.
 */
export async function deleteUnneededObject(tx: Tx, hash: string): Promise<boolean> {
  return (await tx.$executeRaw`DELETE FROM "FileObject" o WHERE o.hash = ${hash} AND ${IS_UNNEEDED}`) > 0
}

/**
 * Deletes the byte counts of past days, and the storage records of processes that were last seen more than a day ago.
 */
export async function deleteOldCounts(tx: Tx, now: Date): Promise<void> {
  await tx.uploadedBytes.deleteMany({ where: { day: { lt: new Date(now.getTime() - 2 * 86_400_000) } } })
  await tx.$executeRaw`DELETE FROM "FileStorageUse" WHERE "seenAt" < now() - interval '1 day'`
}

/**
 * Makes other transactions that begin uploads of this owner wait until this transaction has ended, so that they count
 * its upload.
 */
export async function lockUploads(tx: Tx, ownerId: string): Promise<void> {
  await tx.$executeRaw`SELECT pg_advisory_xact_lock(hashtextextended(${`uploads of ${ownerId}`}, 0))`
}

export async function insertUpload(
  tx: Tx,
  upload: Pick<FileUpload, 'id' | 'ownerId' | 'name' | 'size' | 'createdAt' | 'expiresAt'>,
): Promise<FileUpload> {
  return tx.fileUpload.create({ data: upload })
}

/** Adds a stored part. Returns false if the upload's offset has changed. */
export async function addPart(
  tx: Tx,
  { id, offset, bytes }: { id: string; offset: number; bytes: number },
): Promise<boolean> {
  const added = await tx.$executeRaw`
    UPDATE "FileUpload" SET received = received + ${bytes}::int, parts = parts || ${offset}::int
    WHERE id = ${id} AND received = ${offset}::int AND "fileId" IS NULL`
  return added > 0
}

/**
 * Records the file that was created from a complete upload. The upload's row remains until it expires, so that
 * clients can check whether the upload is complete.
 */
export async function finishUpload(tx: Tx, id: string, fileId: string): Promise<void> {
  await tx.fileUpload.updateMany({ where: { id }, data: { fileId } })
}

/** Records that the stored parts of an upload were deleted. */
export async function clearParts(tx: Tx, id: string): Promise<void> {
  await tx.fileUpload.updateMany({ where: { id }, data: { parts: [] } })
}

export async function deleteUpload(tx: Tx, id: string): Promise<void> {
  await tx.fileUpload.deleteMany({ where: { id } })
}

/** Writes the texts of imported files. The import has extracted them from the files' bytes and staged them. */
export async function insertImportedTexts(tx: Tx): Promise<void> {
  await tx.$executeRaw`
    INSERT INTO "FileText" ("fileId", text) SELECT t.key, t.row->>'text' FROM "ImportedRow" t JOIN "File" f ON f.id = t.key
    WHERE t."table" = 'File' AND NOT t."isHere" AND t.row->>'text' IS NOT NULL`
}

/** The maximum number of characters of a file's text that a prompt quotes. */
const MOST_QUOTED = 20_000

/** Returns the beginnings of the texts of files in these messages. Prompts may have quoted them. */
export async function textsOfFiles(
  tx: Tx,
  messageIds: readonly string[],
): Promise<{ messageId: string; text: string }[]> {
  return tx.$queryRaw`
    SELECT f."messageId", left(x.text, ${MOST_QUOTED}) AS text FROM "FileText" x JOIN "File" f ON f.id = x."fileId"
    WHERE f."messageId" = ANY(${[...messageIds]}::text[]) AND x.text <> ''`
}
