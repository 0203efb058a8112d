import type { InboxEvent } from '../generated/prisma/client.ts'
import type { Tx } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'
import { collectOutcomeChanges } from './outcome-changes.ts'
import type { RunEnd } from './run-end.ts'

/** In the transaction that takes events out of inboxes which no cycle will have: their turns in chains are over. */
export type LoseTurns = (tx: Tx, events: InboxEvent[]) => Promise<{ afterCommit(): Promise<void> }>

export function createLosingTurns(
  { log }: Pick<Platform, 'log'>,
  { onTurnLost }: Pick<RunEnd, 'onTurnLost'>,
): LoseTurns {
  return async (tx, events) => {
    const outcomes = collectOutcomeChanges(tx, log)
    const follow: (() => Promise<void>)[] = []
    for (const event of events) {
      const followed = event.chainId === null ? null : await onTurnLost(tx, turnOf(event), outcomes)
      if (followed !== null) follow.push(followed.afterCommit)
    }
    return {
      async afterCommit() {
        await outcomes.announce()
        for (const after of follow) await after()
      },
    }
  }
}

/** An event's turn in its chain, as that of the cycle which would have had it. */
function turnOf({ id, agentId, chainId, rootId, depth, parentRunId, spaceId, places, label, askers }: InboxEvent) {
  return { id: parentRunId ?? id, agentId, chainId, rootId, depth, triggerSpaceId: spaceId, places, label, askers }
}
