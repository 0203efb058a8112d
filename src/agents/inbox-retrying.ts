import { type InboxEvent, Prisma } from '../generated/prisma/client.ts'
import type { Tx } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'
import { JOBS_CHANNEL } from '../realtime/topics.ts'

// What a provider's outage ended goes back to the inbox: until its time it is still the failed cycle's (`runId`), with a `retryAt`;
// then it waits as before.

/** The pauses before what an outage ended is tried again. */
export const RETRY_MINUTES = [1, 5, 30]

/**
 * In the transaction that ends a cycle, for what it had taken: each event is to be tried again after its next pause; those that
 * had all of them are left as they are. @returns those that will be
 */
export function postpone(tx: Tx, runId: string): Promise<Pick<InboxEvent, 'messageId' | 'outages'>[]> {
  return tx.$queryRaw`
    UPDATE "InboxEvent" SET outages = outages + 1,
      "retryAt" = clock_timestamp() + (${RETRY_MINUTES}::int[])[outages + 1] * interval '1 minute'
    WHERE "runId" = ${runId} AND "doneAt" IS NULL AND outages < ${RETRY_MINUTES.length} RETURNING "messageId", outages`
}

/** The change that lets what is postponed wait for the next cycle. */
export const COME_BACK = Prisma.sql`"runId" = NULL, "retryAt" = NULL`

/** Events whose pause is over wait again. */
export interface InboxRetrying {
  /** A SELECT of `id` and `at`, the time of each. */
  due: Prisma.Sql
  comeBack(ids: string[]): Promise<void>
}

export function createInboxRetrying({ db, signals }: Pick<Platform, 'db' | 'signals'>): InboxRetrying {
  return {
    due: Prisma.sql`SELECT id, "retryAt" AS at FROM "InboxEvent" WHERE "retryAt" IS NOT NULL`,
    async comeBack(ids) {
      await db.prisma.$executeRaw`
        UPDATE "InboxEvent" SET ${COME_BACK} WHERE id = ANY(${ids}::text[]) AND "retryAt" <= clock_timestamp()`
      await signals.publish(JOBS_CHANNEL, {})
    },
  }
}
