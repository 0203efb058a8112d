import { Prisma } from '../generated/prisma/client.ts'
import { FAILED_JOBS } from '../jobs/queue-options.ts'
import { SEND_LINK, SEND_MAIL } from '../jobs/queues.ts'
import type { Platform } from '../platform/platform.ts'

/** Whether emails reach the mail server. */
export interface MailStatus {
  /** Whether email is configured for this process. */
  configured: boolean
  /** When the mail server last accepted an email; null if it has accepted none in the last 30 days. */
  lastSentAt: Date | null
  /** The start of the latest attempt to send an email that is still unsent and has failed at least once. */
  lastFailedAt: Date | null
  /** The error of the last failed attempt. */
  lastError: string | null
  /** The number of emails that failed and will be sent again. */
  retrying: number
  /** The number of emails whose last attempt failed. */
  failed: number
}

const LONGEST_ERROR = 1000

/** Returns a function that determines the status from the jobs that send email and the records of sent emails. */
export function createMailStatus({ db, mailer }: Pick<Platform, 'db' | 'mailer'>): () => Promise<MailStatus> {
  const names = [SEND_MAIL.name, SEND_LINK.name]
  return async () => {
    const [row] = await db.query<Omit<MailStatus, 'configured'>>(Prisma.sql`
      WITH unsent AS (
        SELECT started_on AS at, output, false AS "isLast" FROM job
        WHERE name = ANY(${names}::text[]) AND state IN ('retry', 'active') AND output IS NOT NULL
        UNION ALL
        SELECT created_on, source_output, true FROM job WHERE name = ${FAILED_JOBS} AND source_name = ANY(${names}::text[])
      ), newest AS (SELECT * FROM unsent ORDER BY at DESC LIMIT 1)
      SELECT (SELECT max("sentAt") FROM "Mail") AS "lastSentAt", (SELECT at FROM newest) AS "lastFailedAt",
        (SELECT left(coalesce(output->>'message', output->'value'->>'message'), ${LONGEST_ERROR}::int) FROM newest) AS "lastError",
        (SELECT count(*)::int FROM unsent WHERE NOT "isLast") AS retrying,
        (SELECT count(*)::int FROM unsent WHERE "isLast") AS failed`)
    if (row === undefined) throw new Error('The query for the mail status returned no row.')
    return { configured: mailer !== null, ...row }
  }
}
