import { createHash } from 'node:crypto'
import type { Jobs } from '../jobs/jobs.ts'
import { FAILED_JOBS } from '../jobs/queue-options.ts'
import { SEND_LINK, SEND_MAIL } from '../jobs/queues.ts'
import { emailKeyOf } from '../lib/email.ts'
import type { Tx } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'

// Contains the statements that write the table "Mail".

/** An email to a human. It is sent to the address that the human has at the time of sending. */
export interface NewMail {
  /**
   * A key that identifies the email, such as `mention:msg_…:hum_…`. A second email with the same key is not sent
   * within 30 days.
   */
  key: string
  humanId: string
  /** The subject, on one line. It is truncated to 200 characters. */
  subject: string
  /** The text in plain text, at most 20,000 characters. A blank line separates paragraphs. */
  text: string
  /** A link to a page of this server, which follows the text. */
  link?: { path: string; label: string }
  /** The time after which the email must not be sent. If absent, the server tries to send the email for about a day. */
  until?: Date
}

const KEPT_DAYS = 30
const MOST_DELETED_AT_ONCE = 200
const LONGEST_SUBJECT = 200
const LONGEST_TEXT = 20_000

/**
 * Enqueues an email in the transaction of its cause. To have it sent immediately, publish DUE_JOBS_CHANNEL after the
 * commit. Without this signal, it is sent within a second. If the human has no address when the job runs, no email is
 * sent.
 * @returns false if email is not set up, or if the key was used before
 */
export async function enqueueMail(
  tx: Tx,
  { jobs, mailer, clock }: Pick<Platform, 'mailer' | 'clock'> & { jobs: Pick<Jobs, 'enqueue'> },
  { key, humanId, subject, text, link, until }: NewMail,
): Promise<boolean> {
  if (mailer === null || !(await insertMail(tx, key, new Date(clock.now())))) return false
  const input = {
    key,
    humanId,
    subject: subject.replace(/\s+/g, ' ').slice(0, LONGEST_SUBJECT),
    text: text.slice(0, LONGEST_TEXT),
    link: link ?? null,
    until: until?.toISOString() ?? null,
  }
  await jobs.enqueue(tx, SEND_MAIL, [{ input, key }])
  return true
}

/**
 * Records that an email will be sent, and deletes old records.
 * @param counted the name under which the email counts towards a limit (see `countMails`)
 * @returns false if a record with this key already exists
 */
export async function insertMail(tx: Tx, key: string, now: Date, counted: string | null = null): Promise<boolean> {
  const before = new Date(now.getTime() - KEPT_DAYS * 86_400_000)
  await tx.$executeRaw`
    DELETE FROM "Mail" WHERE key IN (
      SELECT key FROM "Mail" WHERE "createdAt" < ${before} ORDER BY "createdAt" LIMIT ${MOST_DELETED_AT_ONCE} FOR UPDATE SKIP LOCKED)`
  const count = await tx.$executeRaw`
    INSERT INTO "Mail" (key, "createdAt", counted) VALUES (${key}, ${now}, ${counted}) ON CONFLICT DO NOTHING`
  return count > 0
}

/** Returns the name under which emails to an address, or emails that a human causes, are counted. */
export const countedAs = (purpose: string, who: string): string =>
  createHash('sha256').update(`${purpose} ${who.toLowerCase()}`).digest('base64url')

/**
 * Counts the emails that were recorded under a name since a given time. Other transactions for the same name wait
 * until this one has ended.
 */
export async function countMails(tx: Tx, counted: string, since: Date): Promise<number> {
  await tx.$executeRaw`SELECT pg_advisory_xact_lock(hashtextextended(${counted}, 0))`
  return tx.mail.count({ where: { counted, createdAt: { gt: since } } })
}

/**
 * Marks the start of an attempt to send an email.
 * @returns the state before this attempt. An earlier attempt may have died before recording its outcome.
 */
export async function beginMail(tx: Tx, key: string, now: Date): Promise<'new' | 'started' | 'sent'> {
  const [row] = await tx.$queryRaw<{ startedAt: Date | null; sentAt: Date | null }[]>`
    WITH before AS (SELECT * FROM "Mail" WHERE key = ${key} FOR UPDATE), marked AS (
      UPDATE "Mail" m SET "startedAt" = ${now} FROM before WHERE m.key = before.key AND before."sentAt" IS NULL)
    SELECT "startedAt", "sentAt" FROM before`
  if (row?.sentAt) return 'sent'
  return row?.startedAt ? 'started' : 'new'
}

/** Records the outcome of an attempt to send an email. */
export async function endMail(tx: Tx, key: string, sentAt: Date | null): Promise<void> {
  await tx.$executeRaw`
    UPDATE "Mail" SET "sentAt" = ${sentAt}::timestamptz, "startedAt" = CASE WHEN ${sentAt !== null} THEN "startedAt" END
    WHERE key = ${key} AND "sentAt" IS NULL`
}

/** Deletes the emails to a human or an address that are still unsent or have failed. */
export async function deleteMailsOf(tx: Tx, { id, email }: { id: string; email: string | null }): Promise<void> {
  const names = [SEND_MAIL.name, SEND_LINK.name]
  await tx.$executeRaw`
    DELETE FROM job WHERE state <> 'active' AND (group_id = ${id} OR lower(data->>'email') = ${email === null ? '' : emailKeyOf(email)})
      AND (name = ANY(${names}::text[]) OR (name = ${FAILED_JOBS} AND source_name = ANY(${names}::text[])))`
}
