import type { InboxEvent } from '../generated/prisma/client.ts'
import type { Tx } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'
import { collectOutcomeChanges } from './outcome-changes.ts'
import type { RunEnd } from './run-end.ts'

/** In the transaction that removes inbox events that no cycle will process: ends their turns in chains. */
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

/** The turn of an event in its chain, in the form of the cycle that would have processed it. */
function turnOf({ id, agentId, chainId, rootId, depth, parentRunId, spaceId, places, label, askers }: InboxEvent) {
  return { id: parentRunId ?? id, agentId, chainId, rootId, depth, triggerSpaceId: spaceId, places, label, askers }
}
