import { Prisma, type Notice as Row } from '../generated/prisma/client.ts'
import { enqueueSql } from '../jobs/enqueue-sql.ts'
import { NOTIFY } from '../jobs/queues.ts'
import { jsonbText } from '../lib/json.ts'
import type { Tx } from '../platform/db.ts'
import type { NoticeIds } from '../rules/notices.ts'

// Contains the statements that write the table "Notice", and statements that enqueue the jobs which write notices.

/** A notice to be written. */
export interface NewNotice extends NoticeIds {
  id: string
  humanId: string
  /**
   * The id of the message, tool call or run that the notice is about. For each kind, a human gets only one notice
   * about it.
   */
  subjectId: string
  /** The number of minutes until the notice is emailed; null if it is not emailed. */
  mailAfterMinutes: number | null
}

/** The maximum number of notices of one kind for one human per minute. Further notices are dropped. */
const MOST_A_MINUTE = 30
/**
 * The maximum number of notices of one kind that wait to be emailed to one human, and of notices in one email. Each
 * kind has its own limit, so that many mentions cannot suppress an email about a decision.
 */
const MOST_TO_MAIL = 100
/** The maximum number of obsolete notices that one insertion deletes. */
const MOST_DELETED = 500

const NOTICE_LOCK = 7_275_543
/** The number of locks. Several humans share a lock, because one message can concern hundreds of humans. */
const LOCKS = 64

/**
 * Makes concurrent transactions that notify the same humans wait for each other, so that each transaction counts the
 * notices of the others.
 */
async function lockNotices(tx: Tx, humanIds: readonly string[]): Promise<void> {
  await tx.$queryRaw`
    SELECT 1 FROM (SELECT pg_advisory_xact_lock(${NOTICE_LOCK}::int, key) FROM (
      SELECT DISTINCT abs(hashtext(id) % ${LOCKS}::int) AS key FROM unnest(${[...humanIds]}::text[]) AS human(id) ORDER BY 1) keys) locked`
}

/**
 * Writes notices. Omits notices that the human has already received, and notices that exceed the limits. Returns the
 * written notices.
 */
export async function insertNotices(tx: Tx, notices: readonly NewNotice[]): Promise<Row[]> {
  if (notices.length === 0) return []
  await lockNotices(
    tx,
    notices.map(({ humanId }) => humanId),
  )
  await deleteUseless(tx)
  return tx.$queryRaw<Row[]>`
    INSERT INTO "Notice" (id, "humanId", kind, "subjectId", "spaceId", "messageId", "toolCallId", "runId", "createdAt", "mailAt")
    SELECT n.id, n."humanId", n.kind::"NoticeKind", n."subjectId", n."spaceId", n."messageId", n."toolCallId", n."runId", now(),
      CASE WHEN (SELECT count(*) FROM "Notice" w WHERE w."humanId" = n."humanId" AND w.kind = n.kind::"NoticeKind" AND w."mailAt" IS NOT NULL) < ${MOST_TO_MAIL}
        THEN now() + n."mailAfterMinutes" * interval '1 minute' END
    FROM jsonb_to_recordset(${jsonbText(notices)}::jsonb) AS n(id text, "humanId" text, kind text, "subjectId" text, "spaceId" text,
      "messageId" text, "toolCallId" text, "runId" text, "mailAfterMinutes" int)
    WHERE (
      SELECT count(*) FROM "Notice" o
      WHERE o."humanId" = n."humanId" AND o.kind = n.kind::"NoticeKind" AND o."createdAt" > now() - interval '1 minute') < ${MOST_A_MINUTE}
    ON CONFLICT DO NOTHING RETURNING *`
}

/**
 * Deletes notices that will not be emailed and no longer count towards the limits. Notices about decisions remain for
 * 30 days, because an escalation must not notify the same people again.
 */
async function deleteUseless(tx: Tx): Promise<void> {
  await tx.$executeRaw`
    DELETE FROM "Notice" WHERE id IN (
      SELECT id FROM "Notice" WHERE "mailAt" IS NULL
        AND "createdAt" < now() - CASE WHEN kind = 'DECISION_WAITING' THEN interval '30 days' ELSE interval '1 hour' END
      ORDER BY "createdAt" LIMIT ${MOST_DELETED} FOR UPDATE SKIP LOCKED)`
}

/**
 * Locks and returns the notices that are due to be emailed to a human. Notices about decisions come first, then the
 * oldest notices.
 */
export function lockDueNotices(tx: Tx, humanId: string): Promise<Row[]> {
  return tx.$queryRaw<Row[]>`
    SELECT * FROM "Notice" WHERE "humanId" = ${humanId} AND "mailAt" <= now()
    ORDER BY kind = 'DECISION_WAITING' DESC, id LIMIT ${MOST_TO_MAIL} FOR UPDATE`
}

/** Sets the time at which notices are emailed; null means never. */
export async function setMailAt(tx: Tx, ids: readonly string[], mailAt: Date | null): Promise<void> {
  await tx.notice.updateMany({ where: { id: { in: [...ids] } }, data: { mailAt } })
}

/** Returns the time at which the next notice is emailed to a human, or null if no notice waits to be emailed. */
export async function nextMailTime(tx: Tx, humanId: string): Promise<Date | null> {
  const next = await tx.notice.findFirst({
    where: { humanId, mailAt: { not: null } },
    orderBy: { mailAt: 'asc' },
    select: { mailAt: true },
  })
  return next?.mailAt ?? null
}

/** Returns a CTE that deletes a human's notices about failed runs in a space. */
export const forgetFailedRunsSql = (humanId: string, spaceId: string): Prisma.Sql => Prisma.sql`
  DELETE FROM "Notice" WHERE "humanId" = ${humanId} AND "spaceId" = ${spaceId} AND kind = 'RUN_FAILED'`

export async function deleteNotices(tx: Tx, where: Prisma.NoticeWhereInput): Promise<void> {
  await tx.notice.deleteMany({ where })
}

/** Returns a CTE that enqueues the job which notifies people of a message. */
export const notifyOfMessageSql = (messageId: string): Prisma.Sql =>
  notifySql('message', Prisma.sql`(SELECT ${messageId} AS id)`)

/**
 * Returns a CTE that enqueues the jobs which notify people of the calls in the CTE `changed` that
 * wait for a decision.
 */
export const notifyOfDecisionsSql = (changed: string): Prisma.Sql =>
  notifySql('decision', Prisma.sql`(SELECT id FROM ${Prisma.raw(`"${changed}"`)} WHERE "approvalState" = 'PENDING')`)

function notifySql(cause: 'message' | 'decision', source: Prisma.Sql): Prisma.Sql {
  return enqueueSql(
    NOTIFY,
    Prisma.sql`
      SELECT ${cause}::text || ':' || c.id AS key, c.id AS subject, jsonb_build_object('cause', ${cause}::text, 'id', c.id) AS data
      FROM ${source} c`,
  )
}
