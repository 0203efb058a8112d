import type { Database } from '../../src/platform/db.ts'

const AT_ONCE = 250_000

interface SearchableMessages {
  /** The spaces, used in turn, so that their messages alternate in the table. */
  spaceIds: readonly string[]
  senderId: string
  /** The texts, used in turn. */
  texts: readonly string[]
  count: number
}

/**
 * Writes messages and their rows of the search index in bulk, with the result that `send` and its triggers would have. To save
 * time, the words of each text are computed once, no trigger or foreign key is checked, and the indexes of texts are built at
 * the end.
 */
export async function writeSearchable(
  { prisma }: Database,
  { spaceIds, senderId, texts, count }: SearchableMessages,
): Promise<void> {
  const indexes = await prisma.$queryRaw<{ name: string; definition: string }[]>`
    SELECT indexname AS name, indexdef AS definition FROM pg_indexes
    WHERE schemaname = current_schema() AND tablename = 'SearchText' AND indexdef LIKE '%USING gin%'`
  for (const { name } of indexes) await prisma.$executeRawUnsafe(`DROP INDEX "${name}"`)
  const each = Math.ceil(count / spaceIds.length)
  await prisma.$executeRaw`CREATE TABLE given AS
    SELECT n - 1 AS n, text, jsonb_build_array(jsonb_build_object('type', 'text', 'text', text)) AS parts, folded, "searchWords"(folded) AS words
    FROM unnest(${[...texts]}::text[]) WITH ORDINALITY AS of(text, n), LATERAL (SELECT "searchFold"(text) AS folded OFFSET 0) f`
  for (let at = 0; at < count; at += AT_ONCE) {
    await prisma.$transaction(
      async (tx) => {
        await tx.$executeRaw`SET LOCAL session_replication_role = replica`
        await tx.$executeRaw`
          WITH sent AS (
            SELECT 'msg_' || lpad(to_hex(i.n), 32, '0') AS id, i.n / ${spaceIds.length}::int + 1 AS seq,
              -- Shifted, so that each text is sent in all spaces.
              (${[...spaceIds]}::text[])[1 + (i.n + i.n / 1000) % ${spaceIds.length}::int] AS "spaceId",
              now() - (${count}::int - i.n) * interval '1 minute' AS at, given.parts, given.folded, given.words
            FROM generate_series(${at}::int, ${Math.min(at + AT_ONCE, count) - 1}::int) i(n) JOIN given ON given.n = i.n % ${texts.length}::int
          ), messages AS (
            INSERT INTO "Message" (id, "spaceId", seq, "senderId", status, parts, "rootId", depth, "routedAt", "createdAt")
            SELECT id, "spaceId", seq, ${senderId}, 'COMPLETE', parts, '', 0, at, at FROM sent
          )
          INSERT INTO "SearchText" ("messageId", "fileId", "spaceId", "senderId", at, plain, words)
          SELECT id, '', "spaceId", ${senderId}, at, folded, words FROM sent`
      },
      { timeout: 600_000 },
    )
  }
  await prisma.$executeRaw`DROP TABLE given`
  for (const { definition } of indexes) await prisma.$executeRawUnsafe(definition)
  await prisma.$executeRaw`UPDATE "Space" SET "lastSeq" = ${each} WHERE id = ANY(${[...spaceIds]}::text[])`
  for (const table of ['Message', 'SearchText']) await prisma.$executeRawUnsafe(`VACUUM ANALYZE "${table}"`)
}
