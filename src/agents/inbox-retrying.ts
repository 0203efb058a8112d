import { JOBS_CHANNEL } from '../broker/topics.ts'
import type { Prisma } from '../generated/prisma/client.ts'
import type { Platform } from '../platform/platform.ts'
import { RETRIED_SQL, returnRetried } from '../stores/inbox-store.ts'

/** Returns events to the inbox when their delay is over. */
export interface InboxRetrying {
  /** A SELECT of `id` and `at` for events; `at` is when an event is due. */
  due: Prisma.Sql
  comeBack(ids: string[]): Promise<void>
}

export function createInboxRetrying({ db, signals }: Pick<Platform, 'db' | 'signals'>): InboxRetrying {
  return {
    due: RETRIED_SQL,
    async comeBack(ids) {
      await returnRetried(db.prisma, ids)
      await signals.publish(JOBS_CHANNEL, {})
    },
  }
}
