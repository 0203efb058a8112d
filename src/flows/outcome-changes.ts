import { spaceTopic } from '../broker/topics.ts'
import { PUBLISH_CHANGE } from '../jobs/queues.ts'
import type { Tx } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'
import { unpublished } from '../stores/change-store.ts'
import { CHANGED_OUTCOMES_SQL, type OutcomeChange, setOutcomes } from '../stores/outcome-store.ts'

/** Collects the changes to outcomes that one transaction makes. */
export interface OutcomeChanges {
  /** Overwrites outcomes. */
  set(...changes: OutcomeChange[]): Promise<void>
  /** Publishes the changed messages. Call this after the commit. */
  announce(): Promise<void>
}

interface OutcomeOptions {
  /**
   * Whether a job publishes the changes if this process dies first (change-store.ts). The job costs a row for each
   * message, so it is not used for the changes that ordinary runs make. If such a change is not published,
   * subscribers read the outcome with the message's next change.
   */
  withJob: boolean
}

export function collectOutcomeChanges(
  tx: Tx,
  { log, jobs }: Pick<Platform, 'log' | 'jobs'>,
  { withJob }: OutcomeOptions,
): OutcomeChanges {
  const changed = new Map<string, string>()
  const jobKeys: string[] = []
  return {
    async set(...changes) {
      const job = withJob ? unpublished('message', CHANGED_OUTCOMES_SQL) : null
      const messages = await setOutcomes(tx, changes, job)
      for (const { messageId, spaceId } of messages) changed.set(messageId, spaceId)
      if (job !== null && messages.length > 0) jobKeys.push(job.change)
    },
    async announce() {
      for (const [messageId, spaceId] of changed) {
        await log.append(spaceTopic(spaceId), { type: 'MessageUpdated', messageId })
      }
      for (const key of jobKeys) jobs.withdraw(PUBLISH_CHANGE, key)
    },
  }
}
