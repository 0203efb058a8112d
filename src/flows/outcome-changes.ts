import { spaceTopic } from '../broker/topics.ts'
import type { Tx } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'
import { type OutcomeChange, setOutcomes } from '../stores/outcome-store.ts'

/** Collects the outcome changes of one transaction. */
export interface OutcomeChanges {
  /** Overwrites outcomes. */
  set(...changes: OutcomeChange[]): Promise<void>
  /** Publishes the changed messages. Call this after the commit. */
  announce(): Promise<void>
}

export function collectOutcomeChanges(tx: Tx, log: Platform['log']): OutcomeChanges {
  const changed = new Map<string, string>()
  return {
    async set(...changes) {
      for (const { messageId, spaceId } of await setOutcomes(tx, changes)) changed.set(messageId, spaceId)
    },
    async announce() {
      for (const [messageId, spaceId] of changed) {
        await log.append(spaceTopic(spaceId), { type: 'MessageUpdated', messageId })
      }
    },
  }
}
