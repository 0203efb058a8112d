import { Prisma } from '../generated/prisma/client.ts'
import type { Tx } from '../platform/db.ts'
import { type NoticeCause, type NoticeIds, type NotifyLevel, noticeKindOf } from '../rules/notices.ts'
import { readUndecided } from '../stores/decision-store.ts'

/** The facts about the object of a notice that determine whether the notice is open for one human. */
interface Facts {
  id: string
  cause: NoticeCause
  level: NotifyLevel | null
}

/**
 * Returns the notices of a human that are still open. A notice is open while the message is unread, the call waits
 * for the human's decision, or the failed run has not been retried. The human must also still be allowed to see the
 * object, and want to be notified of it.
 */
export async function openAmong<Notice extends NoticeIds>(
  tx: Tx,
  humanId: string,
  notices: readonly Notice[],
): Promise<Notice[]> {
  const ids = (key: 'messageId' | 'toolCallId' | 'runId', isOf: (kind: Notice['kind']) => boolean) =>
    notices.flatMap((notice) => (isOf(notice.kind) && notice[key] !== null ? [notice[key]] : []))
  const isMessage = (kind: Notice['kind']) => kind === 'MENTION' || kind === 'MESSAGE'
  const facts = [
    ...(await readMessages(tx, humanId, ids('messageId', isMessage))),
    ...(await readDecisions(
      tx,
      humanId,
      ids('toolCallId', (kind) => kind === 'DECISION_WAITING'),
    )),
    ...(await readFailedRuns(
      tx,
      humanId,
      ids('runId', (kind) => kind === 'RUN_FAILED'),
    )),
  ]
  const kinds = new Map(facts.map(({ id, cause, level }) => [id, noticeKindOf(cause, { id: humanId, level })]))
  return notices.filter((notice) => kinds.get(subjectOf(notice)) === notice.kind)
}

/** Returns the id of the object that a notice is about. */
export function subjectOf({ kind, messageId, toolCallId, runId }: NoticeIds): string {
  return (kind === 'DECISION_WAITING' ? toolCallId : kind === 'RUN_FAILED' ? runId : messageId) ?? ''
}

/** Reads the messages that the human may read and has not read yet. */
async function readMessages(tx: Tx, humanId: string, ids: readonly string[]): Promise<Facts[]> {
  if (ids.length === 0) return []
  const rows = await tx.$queryRaw<{ id: string; senderId: string; mentionedIds: string[]; level: NotifyLevel }[]>`
    SELECT m.id, m."senderId", m."mentionedIds", own."notifyLevel"::text AS level FROM "Message" m
    JOIN "Membership" own ON own."spaceId" = m."spaceId" AND own."entityId" = ${humanId}
    LEFT JOIN "ThreadReader" t ON t."threadRootId" = m."threadRootId" AND t."humanId" = ${humanId}
    WHERE CASE WHEN m."threadRootId" IS NULL THEN own."lastReadSeq" ELSE coalesce(t."lastReadSeq", 0) END < m.seq AND m.id = ANY(${[...ids]}::text[]) AND m."deletedAt" IS NULL`
  return rows.map(({ id, level, ...message }) => ({ id, level, cause: { type: 'message', ...message } }))
}

async function readDecisions(tx: Tx, humanId: string, ids: readonly string[]): Promise<Facts[]> {
  if (ids.length === 0) return []
  const rows = await readUndecided(tx, ids)
  const mine = rows.filter((row) => row.humanId === humanId)
  return mine.map(({ toolCallId }) => ({
    id: toolCallId,
    level: null,
    cause: { type: 'decision', deciderIds: [humanId] },
  }))
}

/** SQL condition: the run `r` has failed and was not retried. */
export const HAS_FAILED_SQL = Prisma.sql`r.status = 'FAILED' AND NOT EXISTS (SELECT 1 FROM "Run" again WHERE again."retryOfId" = r.id)`
/** SQL for the spaces whose members may see the run `r`. The space that triggered the run comes first. */
export const SPACES_OF_RUN_SQL = Prisma.sql`(
  array_remove(ARRAY[r."triggerSpaceId"], NULL) || ARRAY(SELECT w."spaceId" FROM "RunSpace" w WHERE w."runId" = r.id ORDER BY 1))`

async function readFailedRuns(tx: Tx, humanId: string, ids: readonly string[]): Promise<Facts[]> {
  if (ids.length === 0) return []
  const rows = await tx.$queryRaw<{ id: string; askers: string[]; level: NotifyLevel | null }[]>`
    SELECT r.id, r.askers, (
      SELECT own."notifyLevel"::text FROM "Membership" own
      WHERE own."entityId" = ${humanId} AND own."spaceId" = ANY(${SPACES_OF_RUN_SQL})
      ORDER BY array_position(${SPACES_OF_RUN_SQL}, own."spaceId") LIMIT 1) AS level
    FROM "Run" r WHERE r.id = ANY(${[...ids]}::text[]) AND ${HAS_FAILED_SQL}`
  return rows.map(({ id, askers, level }) => ({ id, level, cause: { type: 'failed-run', askerIds: askers } }))
}
