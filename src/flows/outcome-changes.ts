import { spaceTopic } from '../broker/topics.ts'
import type { Tx } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'
import { WHY_DROPPED } from '../rules/run-end.ts'
import { type OutcomeChange, setOutcomes } from '../stores/outcome-store.ts'

/** The outcome changes of one transaction. */
export interface OutcomeChanges {
  /** Overwrites outcomes. */
  set(...changes: OutcomeChange[]): Promise<void>
  /** Publishes the changed messages; call it after the commit. */
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

/** Sets the outcome DROPPED: no cycle will read the message. */
export async function noteDropped(
  outcomes: OutcomeChanges,
  dropped: Pick<OutcomeChange, 'messageId' | 'agentId' | 'runId'>,
): Promise<void> {
  await outcomes.set({
    ...dropped,
    kind: 'DROPPED',
    reason: WHY_DROPPED,
  })
}
