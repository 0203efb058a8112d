import type { MailLinks } from '../flows/mail-links.ts'
import { type BoundJob, bindJob, type JobContext, PermanentJobError } from '../jobs/job.ts'
import { SEND_LINK, SEND_MAIL } from '../jobs/queues.ts'
import { escapeHtml } from '../lib/html.ts'
import { MailError, type OutgoingMail } from '../platform/mailer.ts'
import type { Platform } from '../platform/platform.ts'
import { beginMail, endMail } from '../stores/mail-store.ts'

/** The content of an email. */
export interface MailContent {
  subject: string
  /** Plain text with blank lines between paragraphs. */
  text: string
  link: { url: string; label: string } | null
}

const MAYBE_SENT =
  'The connection or the process ended after the email was transmitted, so it may have been delivered. Retry this job to send the email again.'

/**
 * Sends emails. Each email is retried for about a day until the SMTP server accepts it. An email that may have been
 * delivered is not sent again. Its job fails, and an admin can retry that job.
 */
export function createMailing(
  platform: Platform,
  { mailLinks }: { mailLinks: Pick<MailLinks, 'prepare'> },
): BoundJob[] {
  const { db, clock, publicUrl, logger, mailer } = platform
  const deliver = createDelivery(platform)

  const sendMail = bindJob(SEND_MAIL, async ({ key, humanId, subject, text, link, until }, job) => {
    if (until !== null && clock.now() > Date.parse(until)) {
      logger.warn({ key }, 'an email was not sent in time, and was dropped')
      return
    }
    const where = { id: humanId, goneAt: null }
    const human = await db.prisma.entity.findFirst({ where, select: { email: true } })
    if (!human?.email) return
    const url = link === null ? null : publicUrl.forReader(link.path)
    await deliver(
      { key, to: human.email, subject, text, link: link === null || url === null ? null : { url, label: link.label } },
      job,
    )
  })

  const sendLink = bindJob(SEND_LINK, async (input, job) => {
    if (mailer === null) throw new Error(NO_SERVER)
    if (input.purpose === 'SIGN_IN' && clock.now() > Date.parse(input.until))
      throw new PermanentJobError('The email could not be sent within an hour.')
    const mail = await mailLinks.prepare(input)
    if (mail === null) return
    const url = publicUrl.forReader(mail.link.path)
    if (url === null) throw new Error('Links in emails need PARLEY_PUBLIC_URL.')
    await deliver({ ...mail, key: input.id, link: { url, label: mail.link.label } }, job)
  })

  return [sendMail, sendLink]
}

const NO_SERVER = 'This process has no mail server: set PARLEY_SMTP_URL for every process.'

/** Sends the email of a job, and completes the job. @throws MailError if the email was not accepted */
export type Deliver = (mail: MailContent & { key: string; to: string }, job: JobContext) => Promise<void>

export function createDelivery({ db, clock, mailer }: Pick<Platform, 'db' | 'clock' | 'mailer'>): Deliver {
  return async ({ key, to, ...content }, { attempt, signal, complete }) => {
    if (mailer === null) throw new Error(NO_SERVER)
    const before = await beginMail(db.prisma, key, new Date(clock.now()))
    if (before === 'sent') return
    // An earlier attempt may have sent the email. Only the first attempt of a job may send it again, because an admin
    // requested that job.
    if (before === 'started' && attempt > 1) throw new PermanentJobError(MAYBE_SENT)
    try {
      await mailer.send(outgoing(key, to, content), signal)
    } catch (error) {
      const outcome = error instanceof MailError ? error.outcome : 'unsent'
      if (outcome === 'unknown') throw new PermanentJobError(MAYBE_SENT)
      await endMail(db.prisma, key, null)
      throw outcome === 'refused' && error instanceof Error ? new PermanentJobError(error.message) : error
    }
    await db.transaction(async (tx) => {
      await endMail(tx, key, new Date(clock.now()))
      await complete(tx)
    })
  }
}

/** Renders an email as plain text and as simple HTML. */
function outgoing(key: string, to: string, { subject, text, link }: MailContent): OutgoingMail {
  const paragraphs = text.split(/\n{2,}/).map((paragraph) => paragraph.trim())
  const lines = paragraphs.map((paragraph) => `<p>${escapeHtml(paragraph).replaceAll('\n', '<br>')}</p>`)
  const button =
    link === null
      ? ''
      : `<p><a href="${escapeHtml(link.url)}" style="display:inline-block;padding:10px 18px;border-radius:6px;background:#4f46e5;color:#ffffff;text-decoration:none">${escapeHtml(link.label)}</a></p><p style="color:#6b7280;font-size:13px">${escapeHtml(link.url)}</p>`
  return {
    key,
    to,
    subject,
    text: [...paragraphs, ...(link === null ? [] : [`${link.label}:\n${link.url}`])].join('\n\n'),
    html: `<!doctype html><html><body style="font:15px/1.5 system-ui,sans-serif;color:#111827;max-width:36em">${lines.join('')}${button}</body></html>`,
  }
}
