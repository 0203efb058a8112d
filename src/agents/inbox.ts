import { JOBS_CHANNEL } from '../broker/topics.ts'
import type { InboxEvent, Prisma, Run } from '../generated/prisma/client.ts'
import type { Tx } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'
import { claimedEvents, finishAnsweredEvent, POSTPONED_SQL, returnPostponed } from '../stores/inbox-store.ts'

/** Manages the events that wait in the inboxes of persistent agents. */
export interface Inbox {
  /**
   * Returns the events that cycles have claimed, by run. The events of each run are in order, and there are at most
   * `most`.
   */
  takenBy(runIds: string[], most: number): Promise<Map<string | null, InboxEvent[]>>
  /** Finds postponed events that are due. */
  timed: { what: string; rows: Prisma.Sql; handle(ids: string[]): Promise<void> }
  /**
   * Marks a message as handled, in the transaction in which a waiting cycle receives it as the reply. No other cycle
   * gets an event for this message, even if the event arrives later.
   */
  answered(tx: Tx, cycle: Pick<Run, 'id' | 'agentId' | 'rootId' | 'depth'>, messageId: string): Promise<void>
}

export function createInbox({ db, signals }: Platform): Inbox {
  return {
    takenBy: (runIds, most) => claimedEvents(db.prisma, runIds, most),
    timed: {
      what: 'an inbox event that waited for the next day',
      rows: POSTPONED_SQL,
      async handle(ids) {
        await returnPostponed(db.prisma, ids)
        await signals.publish(JOBS_CHANNEL, {})
      },
    },
    answered: finishAnsweredEvent,
  }
}
