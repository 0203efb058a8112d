import type { Notice as Row } from '../generated/prisma/client.ts'
import { type BoundJob, bindJob } from '../jobs/job.ts'
import { DUE_JOBS_CHANNEL, MAIL_NOTICES } from '../jobs/queues.ts'
import type { Platform } from '../platform/platform.ts'
import { lineOf, MOST_MAILS_AN_HOUR, nextMailAt, pathOfNotice } from '../rules/notices.ts'
import { enqueueMail, type NewMail } from '../stores/mail-store.ts'
import { readNotificationSettings } from '../stores/notice-readers.ts'
import { lockDueNotices, nextMailTime, setMailAt } from '../stores/notice-store.ts'
import { lockNotificationSettings, setMailTimes } from '../stores/notification-settings-store.ts'
import { mailJob } from './notify.ts'
import { openAmong } from './open-notices.ts'

/** An email that is still unsent after this time is outdated. */
const VALID_MS = 3_600_000

/**
 * Creates the job that sends a human one email about all notices that are due and still open. The transaction that
 * enqueues the email also marks the notices as sent, so no notice is sent twice.
 */
export function createMailNotices(platform: Platform): BoundJob {
  const { db, clock, jobs, signals } = platform

  return bindJob(MAIL_NOTICES, async ({ humanId }, job) => {
    const isMailed = await db.transaction(async (tx) => {
      const { mailedAt } = await lockNotificationSettings(tx, humanId)
      const due = await lockDueNotices(tx, humanId)
      const { mail: wants } = await readNotificationSettings(tx, humanId)
      const open = wants ? await openAmong(tx, humanId, due) : []
      const now = new Date(clock.now())
      const allowedAt = nextMailAt(mailedAt, now)
      const isAllowed = allowedAt <= now
      const closed = isAllowed ? due : due.filter((notice) => !open.includes(notice))
      await setMailAt(tx, idsOf(closed), null)
      if (!isAllowed) await setMailAt(tx, idsOf(open), allowedAt)
      const until = new Date(now.getTime() + VALID_MS)
      const isEnqueued =
        isAllowed && open.length > 0 && (await enqueueMail(tx, platform, { ...mailOf(humanId, open), until }))
      if (isEnqueued) await setMailTimes(tx, humanId, [...mailedAt, now].slice(-MOST_MAILS_AN_HOUR))
      const next = await nextMailTime(tx, humanId)
      if (next !== null) await jobs.enqueue(tx, MAIL_NOTICES, [mailJob(humanId, next)])
      await job.complete(tx)
      return isEnqueued
    })
    if (isMailed) await signals.publish(DUE_JOBS_CHANNEL, {})
  })
}

const idsOf = (notices: readonly Row[]) => notices.map(({ id }) => id)

/** Returns the email. It contains no quotations and no names. */
function mailOf(humanId: string, open: readonly Row[]): NewMail {
  const lines = [...Map.groupBy(open, ({ kind }) => kind)].map(([kind, alike]) => lineOf(kind, alike.length))
  const [first] = open
  const path = open.length === 1 && first !== undefined ? pathOfNotice(first) : '/'
  return {
    key: `notices:${humanId}:${first?.id}`,
    humanId,
    subject:
      open.length === 1 ? (lines[0] ?? '').replace(/\.$/, '') : `${open.length} notifications are waiting for you`,
    text: `${lines.join('\n')}\n\nYou can change which emails you receive in Parley, under Notification settings.`,
    link: { path, label: 'Open Parley' },
  }
}
