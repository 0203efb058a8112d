import { type InboxEvent, Prisma } from '../generated/prisma/client.ts'
import type { Tx } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'
import { JOBS_CHANNEL } from '../realtime/topics.ts'

// Events of a cycle that failed by an outage of a provider return to the inbox. Until `retryAt` an event stays with the
// failed cycle (`runId`); then it waits again.

/** The delays before each retry after an outage. */
export const RETRY_MINUTES = [1, 5, 30]

/**
 * Schedules the next retry of each event of a cycle, in the transaction that ends it. Events without a retry left are
 * unchanged. @returns the scheduled events
 */
export function postpone(tx: Tx, runId: string): Promise<Pick<InboxEvent, 'messageId' | 'outages'>[]> {
  return tx.$queryRaw`
    UPDATE "InboxEvent" SET outages = outages + 1,
      "retryAt" = clock_timestamp() + (${RETRY_MINUTES}::int[])[outages + 1] * interval '1 minute'
    WHERE "runId" = ${runId} AND "doneAt" IS NULL AND outages < ${RETRY_MINUTES.length} RETURNING "messageId", outages`
}

/** The assignments that let a postponed event wait for the next cycle. */
export const COME_BACK = Prisma.sql`"runId" = NULL, "retryAt" = NULL`

/** Returns postponed events to the inbox when their delay is over. */
export interface InboxRetrying {
  /** A SELECT of `id` and `at`, the time that each event is due. */
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
