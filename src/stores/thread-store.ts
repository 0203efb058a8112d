import { Prisma } from '../generated/prisma/client.ts'
import { prefixOf } from '../lib/ids.ts'
import type { Database, Tx } from '../platform/db.ts'
import type { Room } from '../rules/routing.ts'
import { placeOfReply, type RepliedMessage, type ReplyPlace } from '../rules/threads.ts'
import { isMemberSql } from './membership-store.ts'
import type { Turn } from './space-store.ts'

// Contains the statements that write the tables "ThreadReader" and "ThreadTurn", except imports, which write all
// tables generically. A thread has no row of its own. It consists of the messages that refer to its root. These
// tables have no foreign keys, because the locks of foreign keys could cause deadlocks with deletions of messages.

/**
 * A CTE that records the readers of a thread, for whom further replies are unread. For the reply in the CTE `message`,
 * these are its sender, the sender of the thread's first message, and the mentioned people.
 */
export const insertThreadReadersSql = Prisma.sql`
  INSERT INTO "ThreadReader" ("threadRootId", "humanId", "spaceId", "takesPart")
  SELECT message."threadRootId", p.id, message."spaceId", bool_or(p."takesPart") FROM message CROSS JOIN LATERAL (
    SELECT message."senderId" AS id, true AS "takesPart"
    UNION ALL SELECT r."senderId", true FROM "Message" r WHERE r.id = message."threadRootId"
    UNION ALL SELECT unnest(message."mentionedIds"), false) p
  WHERE p.id LIKE 'hum\\_%'
    AND EXISTS (SELECT 1 FROM "Membership" o WHERE o."spaceId" = message."spaceId" AND o."entityId" = p.id)
  GROUP BY 1, 2, 3
  ON CONFLICT ("threadRootId", "humanId") DO UPDATE SET "takesPart" = true
    WHERE EXCLUDED."takesPart" AND NOT "ThreadReader"."takesPart"`

/**
 * Moves a human's read marker of a thread forward. Returns false if the marker was already at this position or later.
 */
export async function moveThreadMark(
  tx: Tx,
  { threadRootId, spaceId, humanId }: { threadRootId: string; spaceId: string; humanId: string },
  seq: number,
): Promise<boolean> {
  const count = await tx.$executeRaw`
    INSERT INTO "ThreadReader" ("threadRootId", "humanId", "spaceId", "lastReadSeq")
    VALUES (${threadRootId}, ${humanId}, ${spaceId}, ${seq}::int)
    ON CONFLICT ("threadRootId", "humanId") DO UPDATE SET "lastReadSeq" = EXCLUDED."lastReadSeq"
      WHERE "ThreadReader"."lastReadSeq" < EXCLUDED."lastReadSeq"`
  return count > 0
}

/**
 * Returns the agent that had the last turn in a thread, or null if there was no turn. The caller has locked the
 * space.
 */
export async function lastPickedIn(tx: Tx, threadRootId: string): Promise<Room['lastPicked']> {
  const row = await tx.threadTurn.findUnique({ where: { threadRootId } })
  return row === null ? null : { id: row.lastPickedId, joinedAt: row.lastPickedJoinedAt.getTime() }
}

/** Records which agent had the last turn in a thread. */
export async function takeTurnInThread(
  tx: Tx,
  { threadRootId, spaceId }: { threadRootId: string; spaceId: string },
  { id: lastPickedId, joinedAt }: Turn,
): Promise<void> {
  const turn = { lastPickedId, lastPickedJoinedAt: new Date(joinedAt) }
  await tx.threadTurn.upsert({
    where: { threadRootId },
    create: { threadRootId, spaceId, ...turn },
    update: turn,
  })
}

/**
 * Returns CTEs for a statement that deletes the messages whose ids the subquery returns. They delete the state of
 * threads of which no message remains. A thread whose first message was deleted continues to exist.
 */
export const deleteThreadsSql = (messageIds: Prisma.Sql): Prisma.Sql[] =>
  ['ThreadReader', 'ThreadTurn'].map((table) => {
    const t = Prisma.raw(`"${table}"`)
    return Prisma.sql`
      DELETE FROM ${t} t WHERE t."threadRootId" IN (
        SELECT coalesce(m."threadRootId", m.id) FROM "Message" m WHERE m.id IN (${messageIds}))
      AND NOT EXISTS (SELECT 1 FROM "Message" m WHERE (m.id = t."threadRootId" OR m."threadRootId" = t."threadRootId")
        AND m.id NOT IN (${messageIds}))`
  })

/** Copies the turns in the threads of a space. Marks the copied threads as read up to `upTo` for a human. */
export async function copyThreadState(
  tx: Tx,
  {
    fromId,
    intoId,
    humanId,
    upTo,
    agentIds,
  }: { fromId: string; intoId: string; humanId: string | null; upTo: number; agentIds: readonly string[] },
): Promise<void> {
  const isCopied = Prisma.sql`EXISTS (
    SELECT 1 FROM "Message" m WHERE m."spaceId" = ${intoId} AND m."threadRootId" = "copiedId"(t."threadRootId", ${intoId}))`
  await tx.$executeRaw`
    INSERT INTO "ThreadTurn" ("threadRootId", "spaceId", "lastPickedId", "lastPickedJoinedAt")
    SELECT "copiedId"(t."threadRootId", ${intoId}), ${intoId}, "copiedId"(t."lastPickedId", ${intoId}), t."lastPickedJoinedAt"
    FROM "ThreadTurn" t WHERE t."spaceId" = ${fromId} AND t."lastPickedId" = ANY(${[...agentIds]}::text[]) AND ${isCopied}`
  if (humanId === null) return
  await tx.$executeRaw`
    INSERT INTO "ThreadReader" ("threadRootId", "humanId", "spaceId", "lastReadSeq", "takesPart")
    SELECT m."threadRootId", ${humanId}, ${intoId}, ${upTo}::int, coalesce(bool_or(t."takesPart"), false)
    FROM "Message" m LEFT JOIN "ThreadReader" t ON t."spaceId" = ${fromId} AND t."humanId" = ${humanId}
      AND "copiedId"(t."threadRootId", ${intoId}) = m."threadRootId"
    WHERE m."spaceId" = ${intoId} AND m."threadRootId" IS NOT NULL GROUP BY m."threadRootId"`
}

/** Deletes the read markers and turns in the threads of a deleted space. */
export async function deleteThreadsOfSpace(prisma: Pick<Tx, 'threadReader' | 'threadTurn'>, spaceId: string) {
  await prisma.threadReader.deleteMany({ where: { spaceId } })
  await prisma.threadTurn.deleteMany({ where: { spaceId } })
}

/** Deletes the read markers of an erased human in threads. */
export async function deleteThreadReader(tx: Tx, humanId: string): Promise<void> {
  await tx.threadReader.deleteMany({ where: { humanId } })
}

/** Whether a message has a thread. */
export async function isThreadRoot(db: Pick<Database, 'query'>, messageId: string): Promise<boolean> {
  const [row] = await db.query<{ isRoot: boolean }>(
    Prisma.sql`SELECT EXISTS (SELECT 1 FROM "Message" WHERE "threadRootId" = ${messageId}) AS "isRoot"`,
  )
  return row?.isRoot === true
}

/** The thread to which a reply belongs, or the reason why there is none. */
export type FoundPlace = { type: 'place'; place: ReplyPlace } | { type: 'unknown' } | { type: 'deleted' }

/** Does the same as `findReplied`, but finds nothing in a space of which the entity is not a member. */
export function findReplyPlace(
  db: Pick<Database, 'query'>,
  { entityId, ...reply }: { spaceId: string; entityId: string; replyToId: string },
): Promise<FoundPlace> {
  return findReplied(db, reply, isMemberSql({ spaceId: reply.spaceId, entityId }))
}

/**
 * Returns the thread for a reply to a message. Either the caller or `condition` must ensure that the sender may see
 * the space. Also works if retention has deleted the first message of a thread that still exists.
 */
export async function findReplied(
  db: Pick<Database, 'query'>,
  { spaceId, replyToId }: { spaceId: string; replyToId: string },
  condition = Prisma.sql`true`,
): Promise<FoundPlace> {
  if (prefixOf(replyToId) !== 'msg') return { type: 'unknown' }
  const [message] = await db.query<RepliedMessage>(Prisma.sql`
    SELECT m.id, m."threadRootId", m."deletedAt",
      EXISTS (SELECT 1 FROM "Message" r WHERE r."threadRootId" = m.id) AS "isRoot"
    FROM "Message" m WHERE m.id = ${replyToId} AND m."spaceId" = ${spaceId} AND ${condition}
    UNION ALL
    SELECT ${replyToId}, NULL, NULL, true WHERE ${condition} AND NOT EXISTS (SELECT 1 FROM "Message" WHERE id = ${replyToId})
      AND EXISTS (SELECT 1 FROM "Message" r WHERE r."threadRootId" = ${replyToId} AND r."spaceId" = ${spaceId})`)
  if (message === undefined) return { type: 'unknown' }
  const place = placeOfReply(message)
  return place === null ? { type: 'deleted' } : { type: 'place', place }
}
