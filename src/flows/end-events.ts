import type { InboxEvent } from '../generated/prisma/client.ts'
import type { Tx } from '../platform/db.ts'
import { type ChainPlatform, loseTurns } from './chain.ts'
import { collectOutcomeChanges } from './outcome-changes.ts'

/**
 * Ends events that no cycle will read, in the transaction that removes the events from their inboxes. Their messages
 * get the outcome DROPPED for the agent, and their turns in chains pass to the next agents.
 * @param reason the reason to record in the outcomes
 */
export async function endEvents(
  tx: Tx,
  platform: ChainPlatform,
  { events, reason }: { events: readonly InboxEvent[]; reason: string },
): Promise<{ afterCommit(): Promise<void> }> {
  const outcomes = collectOutcomeChanges(tx, platform, { withJob: true })
  await outcomes.set(
    ...events.flatMap(({ agentId, messageId }) =>
      messageId === null ? [] : [{ messageId, agentId, kind: 'DROPPED' as const, reason, runId: null }],
    ),
  )
  const lost = await loseTurns(tx, platform, events)
  return {
    async afterCommit() {
      await outcomes.announce()
      await lost.afterCommit()
    },
  }
}
