import { Prisma, type SearchModel } from '../generated/prisma/client.ts'
import type { Tx } from '../platform/db.ts'

// Contains the statements that write the tables "SearchVector" and "SearchModel", except the trigger
// `followSearchText` (migration `search_vectors`).

/** A text without a vector. */
export interface PendingText {
  messageId: string
  fileId: string
  /** The revision of the text. Each change increments it. */
  revision: number
  /** The beginning of the text of a message, or of the name and text of a file. */
  text: string
}

/** The vector of a pending text. It is empty if the provider refused the text. */
export type TextVector = Omit<PendingText, 'text'> & { vector: readonly number[] }

/** Returns the model that currently computes vectors, with its progress, or null if there is none. */
export async function searchModelOf(tx: Tx): Promise<SearchModel | null> {
  return tx.searchModel.findUnique({ where: { id: 1 } })
}

/**
 * Sets the model that computes vectors. If this model differs from the previous one, all texts are processed again.
 * Waits for transactions that are adding texts, because their triggers have not seen the new model.
 */
export async function setSearchModel(tx: Tx, name: string): Promise<void> {
  if ((await searchModelOf(tx))?.name === name) return
  await tx.$executeRaw`LOCK TABLE "SearchText" IN SHARE ROW EXCLUSIVE MODE`
  const data = { name, backfillBefore: null }
  await tx.searchModel.upsert({ where: { id: 1 }, create: data, update: data })
}

/** Stops the computation of vectors. Vectors of unchanged texts remain. */
export async function clearSearchModel(tx: Tx): Promise<void> {
  await tx.searchModel.deleteMany()
  await tx.$executeRaw`DELETE FROM "SearchVector" WHERE vector IS NULL`
}

/** Selects up to `most` of the newest texts without a vector. */
export const pendingTextsSql = (most: number, characters: number): Prisma.Sql => Prisma.sql`
  SELECT v."messageId", v."fileId", v.revision, left(CASE WHEN v."fileId" = '' THEN coalesce("searchTextOf"(m.parts), '')
    ELSE (SELECT f.name || chr(10) || coalesce(left(x.text, ${characters}::int), '') FROM "File" f LEFT JOIN "FileText" x ON x."fileId" = f.id
      WHERE f.id = v."fileId") END, ${characters}::int) AS text
  FROM (SELECT * FROM "SearchVector" WHERE vector IS NULL ORDER BY "messageId" DESC, "fileId" DESC LIMIT ${most}) v
    JOIN "Message" m ON m.id = v."messageId"`

/**
 * Stores vectors of a model. Skips texts that have changed or were deleted in the meantime. Stores nothing if another
 * model was set in the meantime.
 */
export const storeVectorsSql = (model: string, vectors: readonly TextVector[]): Prisma.Sql => Prisma.sql`
  UPDATE "SearchVector" v SET vector = given.vector::real[], model = ${model}
  FROM unnest(${vectors.map(({ messageId }) => messageId)}::text[], ${vectors.map(({ fileId }) => fileId)}::text[],
    ${vectors.map(({ revision }) => revision)}::int[], ${vectors.map(({ vector }) => `{${vector.join()}}`)}::text[])
    AS given("messageId", "fileId", revision, vector)
  WHERE v."messageId" = given."messageId" AND v."fileId" = given."fileId" AND v.revision = given.revision AND v.vector IS NULL
    AND EXISTS (SELECT FROM "SearchModel" WHERE name = ${model})`

/**
 * Marks the texts of the next batch of messages as pending if they have no vector of the model. Goes from the newest
 * to the oldest messages. Returns whether older messages may remain.
 */
export async function backfillVectors(tx: Tx, model: string, messages: number): Promise<boolean> {
  const [state] = await tx.$queryRaw<SearchModel[]>`SELECT * FROM "SearchModel" WHERE name = ${model} FOR UPDATE`
  if (state === undefined || state.backfillBefore === '') return false
  const { backfillBefore } = state
  const isBefore = backfillBefore === null ? Prisma.sql`true` : Prisma.sql`t."messageId" < ${backfillBefore}`
  // Locks the texts, because a new row must not refer to a text that is being deleted.
  const [batch] = await tx.$queryRaw<{ oldest: string | null }[]>`
    WITH ids AS MATERIALIZED (
      SELECT t."messageId" FROM "SearchText" t WHERE ${isBefore} GROUP BY 1 ORDER BY 1 DESC LIMIT ${messages}
    ), texts AS MATERIALIZED (
      SELECT t."messageId", t."fileId" FROM "SearchText" t JOIN ids USING ("messageId") ORDER BY 1, 2 FOR KEY SHARE OF t
    ), pending AS (
      INSERT INTO "SearchVector" ("messageId", "fileId") SELECT "messageId", "fileId" FROM texts
      ON CONFLICT ("messageId", "fileId") DO UPDATE SET vector = NULL, model = NULL, revision = "SearchVector".revision + 1
      WHERE "SearchVector".model IS DISTINCT FROM ${model} AND "SearchVector".vector IS NOT NULL
    )
    SELECT min("messageId") AS oldest FROM ids`
  const oldest = batch?.oldest ?? ''
  await tx.searchModel.updateMany({ where: { name: model }, data: { backfillBefore: oldest } })
  return oldest !== ''
}
