import type { InboxEvent } from '../generated/prisma/client.ts'
import type { Tx } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'
import type { Lifecycle } from '../runs/lifecycle.ts'
import { collectOutcomeChanges, noteDropped } from './outcome-changes.ts'
import type { RunEnd } from './run-end.ts'

/** What it means that an agent is a member of a space no more. */
export interface Leaving {
  /**
   * In the transaction that ends the membership: what waited of the space in the agent's inbox is DROPPED, and its turns in chains
   * are over; after it, runs that the space had triggered and that have not begun end CANCELED, GONE.
   */
  onLeft(tx: Tx, member: { spaceId: string; entityId: string }): Promise<{ afterCommit(): Promise<void> }>
}

interface LeavingParts {
  runEnd: Pick<RunEnd, 'onTurnLost'>
  lifecycle: Pick<Lifecycle, 'leave'>
}

export function createLeaving({ log }: Platform, { runEnd, lifecycle }: LeavingParts): Leaving {
  return {
    async onLeft(tx, { spaceId, entityId: agentId }) {
      const outcomes = collectOutcomeChanges(tx, log)
      const follow: (() => Promise<void>)[] = []
      for (const event of await dropWaiting(tx, agentId, spaceId)) {
        if (event.messageId !== null) await noteDropped(outcomes, { agentId, messageId: event.messageId, runId: null })
        const followed = event.chainId === null ? null : await runEnd.onTurnLost(tx, turnOf(event), outcomes)
        if (followed !== null) follow.push(followed.afterCommit)
      }
      return {
        async afterCommit() {
          await outcomes.announce()
          for (const after of follow) await after()
          await lifecycle.leave({ agentId, spaceId })
        },
      }
    },
  }
}

function dropWaiting(tx: Tx, agentId: string, spaceId: string): Promise<InboxEvent[]> {
  return tx.$queryRaw<InboxEvent[]>`
    UPDATE "InboxEvent" SET "doneAt" = now()
    WHERE "agentId" = ${agentId} AND "spaceId" = ${spaceId} AND "doneAt" IS NULL AND "runId" IS NULL RETURNING *`
}

/** An event's turn in its chain, as that of the cycle which would have had it. */
function turnOf({ id, agentId, chainId, rootId, depth, parentRunId, spaceId }: InboxEvent) {
  return { id: parentRunId ?? id, agentId, chainId, rootId, depth, triggerSpaceId: spaceId }
}
