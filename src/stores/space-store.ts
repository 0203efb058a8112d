import { Prisma, type Space } from '../generated/prisma/client.ts'
import { NotFoundError } from '../lib/errors.ts'
import { prefixOf } from '../lib/ids.ts'
import type { Database, Tx } from '../platform/db.ts'
import { unpublished } from './change-store.ts'

// Contains the statements that write the tables "Space" and "SpaceCreator", except code in operation/ that processes
// many tables generically.

/** The error for a space that does not exist or is not visible to the viewer. */
export const NO_SUCH_SPACE = 'There is no such space, or you are not a member of it.'

/**
 * Locks the members, message counter and settings of a space until the transaction ends.
 * @throws NotFoundError
 */
export async function lockSpace(tx: Tx, spaceId: string): Promise<Space> {
  return lockSpaceWith(tx, spaceId, Prisma.empty)
}

async function lockSpaceWith(tx: Tx, spaceId: string, withClause: Prisma.Sql): Promise<Space> {
  if (prefixOf(spaceId) !== 'spc') throw new NotFoundError(NO_SUCH_SPACE)
  const [space] = await tx.$queryRaw<Space[]>`
    ${withClause} SELECT * FROM "Space" WHERE id = ${spaceId} AND "deletedAt" IS NULL FOR UPDATE`
  if (space === undefined) throw new NotFoundError(NO_SUCH_SPACE)
  return space
}

/**
 * Locks a space as `lockSpace` does, for a change to its settings or its deletion. `change` is the key of the job
 * that publishes the change if this process dies before it can (change-store.ts). @throws NotFoundError
 */
export async function lockChangingSpace(tx: Tx, spaceId: string): Promise<{ space: Space; change: string }> {
  const { change, enqueueSql } = unpublished(
    'space',
    Prisma.sql`SELECT ${spaceId}::text AS id, ${spaceId}::text AS "spaceId"`,
  )
  return { space: await lockSpaceWith(tx, spaceId, Prisma.sql`WITH publication AS (${enqueueSql})`), change }
}

/** Locks the row of a space until the transaction ends. The space may already be deleted. */
export async function lockSpaceRow(tx: Tx, spaceId: string): Promise<void> {
  await tx.$queryRaw`SELECT 1 FROM "Space" WHERE id = ${spaceId} FOR UPDATE`
}

/** Locks the spaces of an entity that is being deleted until the transaction ends. */
export async function lockSpacesOf(tx: Tx, entityId: string): Promise<void> {
  await tx.$queryRaw`
    SELECT 1 FROM "Space" WHERE id IN (SELECT "spaceId" FROM "Membership" WHERE "entityId" = ${entityId})
    ORDER BY id FOR UPDATE`
}

/** The agent that had the last turn in the space, and the time at which it joined, in milliseconds. */
export interface Turn {
  id: string
  joinedAt: number
}

/**
 * Returns the CTE `counter` for `insertMessageSql`. It increments the message number of the space, and records the
 * turn, if there is one. It locks the space, so that messages are numbered one at a time. It returns no row if the
 * space's row does not satisfy `condition`. A repeated message violates the unique key of messages, so the number is
 * not incremented for it.
 */
export function countMessageSql(spaceId: string, condition: Prisma.Sql, turn: Turn | null = null): Prisma.Sql {
  return Prisma.sql`
    UPDATE "Space" SET "lastSeq" = "lastSeq" + 1${turn === null ? Prisma.empty : turnSql(turn)} WHERE id = ${spaceId} AND ${condition}
    RETURNING id, "lastSeq", version`
}

const turnSql = ({ id, joinedAt }: Turn) =>
  Prisma.sql`, "lastPickedId" = ${id}, "lastPickedJoinedAt" = ${new Date(joinedAt)}`

/** Records which agent had the last turn. */
export async function takeTurn(tx: Tx, spaceId: string, { id, joinedAt }: Turn): Promise<void> {
  await tx.space.update({
    where: { id: spaceId },
    data: { lastPickedId: id, lastPickedJoinedAt: new Date(joinedAt) },
  })
}

/**
 * A CTE that increments the version of the space when a call starts to wait for a reply to the message in the CTE
 * `message`. This invalidates routing decisions from the cache.
 */
export const RAISE_VERSION_SQL = Prisma.sql`UPDATE "Space" SET version = version + 1 FROM message WHERE "Space".id = message."spaceId"`

/** SQL condition: the space still has this version. */
export const isVersionSql = (spaceId: string, version: number): Prisma.Sql =>
  Prisma.sql`EXISTS (SELECT 1 FROM "Space" WHERE id = ${spaceId} AND version = ${version})`

export async function insertSpace(tx: Tx, data: Prisma.SpaceUncheckedCreateInput): Promise<Space> {
  return tx.space.create({ data })
}

export async function updateSpace(tx: Tx, id: string, data: Prisma.SpaceUncheckedUpdateInput): Promise<Space> {
  return tx.space.update({ where: { id }, data })
}

const DAY_MS = 86_400_000

/**
 * Counts a space that the human creates, in the transaction that creates the space. Counts nothing and returns false
 * if the human has already created `most` spaces within a day, including spaces that have since been deleted. The
 * lock of the human's row serializes concurrent creations.
 */
export async function countCreation(tx: Tx, humanId: string, { now, most }: { now: number; most: number }) {
  const time = new Date(now)
  const since = new Date(now - DAY_MS)
  const counted = await tx.$executeRaw`
    INSERT INTO "SpaceCreator" AS c ("humanId", "createdAt")
    SELECT ${humanId}, ARRAY[${time}::timestamptz]
    WHERE (SELECT count(*) FROM "Space" WHERE "creatorId" = ${humanId} AND "createdAt" > ${since}) < ${most}
    ON CONFLICT ("humanId") DO UPDATE SET
      "createdAt" = ARRAY(SELECT t FROM unnest(c."createdAt") t WHERE t > ${since}) || EXCLUDED."createdAt"
    WHERE (SELECT count(*) FROM unnest(c."createdAt") t WHERE t > ${since}) < ${most}`
  return counted > 0
}

/** Hides the space from everybody. `removeSpace` later removes the row. */
export async function hideSpace(tx: Tx, id: string, deletedAt: Date): Promise<void> {
  await tx.space.update({ where: { id }, data: { deletedAt } })
}

/**
 * Matches the rows that remain of deleted spaces. A row without a name remains if the space was confidential or has
 * copies.
 */
export const REMAINS = { deletedAt: { not: null }, name: '' } satisfies Prisma.SpaceWhereInput

/**
 * Removes the row of a hidden space that has no messages left. For a confidential space, a row without a name
 * remains, so that content which agents took from the space stays confidential. For a space with copies, such a row
 * also remains, so that the deletion of a message can find copies of copies. `forgetForks` removes it after the last
 * copy was deleted.
 */
export async function removeSpace(prisma: Database['prisma'], id: string): Promise<void> {
  // Without the condition on messages, this statement would delete all remaining messages at once, while another
  // worker may be deleting them in batches.
  const isEmpty = Prisma.sql`id = ${id} AND NOT EXISTS (SELECT 1 FROM "Message" WHERE "spaceId" = ${id})`
  await prisma.$executeRaw`DELETE FROM "Space" WHERE NOT confidential AND NOT ${HAS_COPIES_SQL} AND ${isEmpty}`
  await prisma.$executeRaw`
    UPDATE "Space" SET name = '', description = NULL, "adminAgentId" = NULL, "lastPickedId" = NULL, budget = NULL, "creatorId" = NULL
    WHERE (confidential OR ${HAS_COPIES_SQL}) AND ${isEmpty}`
}

const HAS_COPIES_SQL = Prisma.sql`EXISTS (SELECT 1 FROM "Space" c WHERE c."forkOfId" = "Space".id)`

/** Removes the rows that remain of deleted spaces with copies, once all copies have been deleted too. */
export async function forgetForks(prisma: Database['prisma']): Promise<void> {
  let removed: number
  do {
    removed = await prisma.$executeRaw`
      DELETE FROM "Space" WHERE "deletedAt" IS NOT NULL AND name = '' AND NOT confidential AND NOT ${HAS_COPIES_SQL}`
  } while (removed > 0)
}

/** Deletes the row that remains of a confidential space, so that an import can write the space again. */
export async function deleteRemains(tx: Tx, id: string): Promise<void> {
  await tx.space.deleteMany({ where: { id, ...REMAINS } })
}

/**
 * Writes rows for confidential spaces that exist only in another database. They are the same rows that would remain
 * after a deletion.
 */
export async function insertRemains(tx: Tx, ids: readonly string[], deletedAt: Date): Promise<void> {
  await tx.space.createMany({
    data: ids.map((id) => ({ id, name: '', routing: 'BROADCAST' as const, confidential: true, deletedAt })),
  })
}

/**
 * Records the number of the first message that remains in the space, after the messages with the ids in `deleted`
 * were deleted. Another process may have deleted more messages than this statement sees. If it sees no message, it
 * records `lastSeq` + 1, because new messages have greater numbers than `lastSeq`.
 */
export function beginAfterSql(spaceId: string, deleted: Prisma.Sql): Prisma.Sql {
  const space = (column: string) => Prisma.sql`SELECT ${Prisma.raw(`"${column}"`)} FROM "Space" WHERE id = ${spaceId}`
  return Prisma.sql`
    UPDATE "Space" SET "firstSeq" = greatest("firstSeq", coalesce((
        SELECT m.seq FROM "Message" m WHERE m."spaceId" = ${spaceId} AND m.seq >= (${space('firstSeq')}) AND m.id NOT IN (${deleted})
        ORDER BY m.seq LIMIT 1), (${space('lastSeq')}) + 1))
    WHERE id = ${spaceId}`
}

/**
 * Locks a copied space. Returns the `seq` of the last message that is not in the search index yet, or 0 if there is
 * none or the space was deleted.
 */
export async function lockUnindexed(tx: Tx, id: string): Promise<number> {
  const [space] = await tx.$queryRaw<{ unindexedSeq: number | null }[]>`
    SELECT "unindexedSeq" FROM "Space" WHERE id = ${id} FOR NO KEY UPDATE`
  return space?.unindexedSeq ?? 0
}

export async function setUnindexed(tx: Tx, id: string, upTo: number): Promise<void> {
  await tx.$executeRaw`UPDATE "Space" SET "unindexedSeq" = ${upTo === 0 ? null : upTo}::int WHERE id = ${id}`
}
