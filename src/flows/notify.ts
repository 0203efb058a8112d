import type { z } from 'zod'
import { entityChannel } from '../broker/topics.ts'
import type { Notice as Row } from '../generated/prisma/client.ts'
import { type BoundJob, bindJob } from '../jobs/job.ts'
import { DUE_JOBS_CHANNEL, MAIL_NOTICES, NOTIFY, SEND_PUSH } from '../jobs/queues.ts'
import { newId } from '../lib/ids.ts'
import type { Tx } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'
import { mentionsOf } from '../rules/message.ts'
import { channelsOf, type NoticeCause, type NoticeIds, noticeKindOf } from '../rules/notices.ts'
import { readUndecided } from '../stores/decision-store.ts'
import { type Reader, readReaders } from '../stores/notice-readers.ts'
import { insertNotices, type NewNotice } from '../stores/notice-store.ts'
import { HAS_FAILED_SQL, SPACES_OF_RUN_SQL } from './open-notices.ts'

/** The cause of a notification, read again when the job runs. */
interface Found {
  cause: NoticeCause
  subjectId: string
  /** The humans who may be notified. */
  readerIds: readonly string[]
  /** A space in which members with the level ALL may be notified too; null if there is none. */
  allIn: string | null
  /** The spaces that show the cause, in order of preference. */
  spaceIds: readonly string[]
  /**
   * Returns the ids for the notice of a human who sees the cause in this space. `spaceId` is null if no space shows
   * the cause to the human.
   */
  idsIn(spaceId: string | null): Omit<NoticeIds, 'kind'>
}

/**
 * Creates the job that notifies people of a message, a call that waits for a decision, or a failed run. One
 * transaction writes the notices and enqueues their push messages and emails, so that each notice is sent only once
 * per channel. After the commit, open browser pages receive a signal.
 */
export function createNotify(platform: Platform): BoundJob {
  const { db, signals } = platform

  return bindJob(NOTIFY, async (input, job) => {
    const notices = await db.transaction(async (tx) => {
      const found = await READ[input.cause](tx, input.id)
      const written = found === null ? [] : await notifyReaders(tx, platform, found)
      await job.complete(tx)
      return written
    })
    if (notices.length === 0) return
    await Promise.all([
      ...notices.map(({ humanId, kind, spaceId, messageId, toolCallId, runId }) =>
        signals.publish(entityChannel(humanId), {
          type: 'notice',
          kind,
          spaceId,
          messageId,
          toolCallId,
          runId,
        }),
      ),
      signals.publish(DUE_JOBS_CHANNEL, {}),
    ])
  })
}

type CauseType = z.infer<typeof NOTIFY.input>['cause']

/**
 * Functions that read the cause, by its type. Each returns null if the cause no longer exists or concerns nobody any
 * more.
 */
const READ: Record<CauseType, (tx: Tx, id: string) => Promise<Found | null>> = {
  async message(tx, id) {
    const message = await tx.message.findUnique({
      where: { id },
      select: { spaceId: true, senderId: true, mentionedIds: true, mentionedAgentId: true, deletedAt: true },
    })
    if (message === null || message.deletedAt !== null) return null
    const { spaceId, senderId } = message
    const mentionedIds = mentionsOf(message)
    return {
      cause: { type: 'message', senderId, mentionedIds },
      subjectId: id,
      readerIds: mentionedIds,
      allIn: spaceId,
      spaceIds: [spaceId],
      idsIn: () => ({ spaceId, messageId: id, toolCallId: null, runId: null }),
    }
  },
  async decision(tx, id) {
    const deciderIds = (await readUndecided(tx, [id])).map(({ humanId }) => humanId)
    const call = await tx.toolCall.findUnique({
      where: { id },
      select: { spaceId: true, messageId: true, runId: true },
    })
    if (call === null || deciderIds.length === 0) return null
    return {
      cause: { type: 'decision', deciderIds },
      subjectId: id,
      readerIds: deciderIds,
      allIn: null,
      spaceIds: call.spaceId === null ? [] : [call.spaceId],
      // A named approver may not be a member of the space. In that case, the notice contains neither the space's id
      // nor the message's id.
      idsIn: (spaceId) => ({
        spaceId,
        messageId: spaceId === null ? null : call.messageId,
        toolCallId: id,
        runId: call.runId,
      }),
    }
  },
  async 'failed-run'(tx, id) {
    const [run] = await tx.$queryRaw<
      { askers: string[]; spaceIds: string[]; triggerSpaceId: string | null; triggerMessageId: string | null }[]
    >`
      SELECT r.askers, ${SPACES_OF_RUN_SQL} AS "spaceIds", r."triggerSpaceId", r."triggerMessageId"
      FROM "Run" r WHERE r.id = ${id} AND ${HAS_FAILED_SQL}`
    if (run === undefined) return null
    const { askers, spaceIds, triggerSpaceId, triggerMessageId } = run
    return {
      cause: { type: 'failed-run', askerIds: askers },
      subjectId: id,
      readerIds: askers,
      allIn: null,
      spaceIds,
      idsIn: (spaceId) => ({
        spaceId,
        messageId: spaceId !== null && spaceId === triggerSpaceId ? triggerMessageId : null,
        toolCallId: null,
        runId: id,
      }),
    }
  },
}

async function notifyReaders(
  tx: Tx,
  { jobs, mailer }: Pick<Platform, 'jobs' | 'mailer'>,
  { cause, subjectId, readerIds, allIn, spaceIds, idsIn }: Found,
): Promise<Row[]> {
  const sendsMail = mailer !== null
  const readers = new Map<string, Reader>()
  const notices: NewNotice[] = []
  for (const reader of await readReaders(tx, { ids: readerIds, allIn, spaceIds })) {
    const kind = noticeKindOf(cause, reader)
    if (kind === null) continue
    readers.set(reader.id, reader)
    const { mailAfterMinutes } = channelsOf({ ...reader, sendsMail })
    notices.push({ ...idsIn(reader.spaceId), id: newId('ntc'), humanId: reader.id, kind, subjectId, mailAfterMinutes })
  }
  const written = await insertNotices(tx, notices)
  const pushed = written.flatMap((notice) => {
    const { id: noticeId, humanId, kind, spaceId, messageId, toolCallId, runId } = notice
    const reader = readers.get(humanId)
    if (reader === undefined) return []
    return channelsOf({ ...reader, sendsMail }).subscriptionIds.map((subscriptionId) => ({
      key: `${noticeId}:${subscriptionId}`,
      input: { noticeId, humanId, subscriptionId, kind, spaceId, messageId, toolCallId, runId, refusals: 0 },
    }))
  })
  await jobs.enqueue(tx, SEND_PUSH, pushed)
  await jobs.enqueue(
    tx,
    MAIL_NOTICES,
    written.flatMap(({ humanId, mailAt }) => (mailAt === null ? [] : [mailJob(humanId, mailAt)])),
  )
  return written
}

/**
 * Returns a job that sends a human an email about the notices that are due at this time. All notices that become due
 * in the same minute share one job.
 */
export function mailJob(humanId: string, at: Date) {
  return { key: `${humanId}:${Math.floor(at.getTime() / 60_000)}`, input: { humanId }, at }
}
