import type { InboxEvent } from '../generated/prisma/client.ts'
import type { Tx } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'
import type { Approvals } from '../runs/approvals.ts'
import type { Lifecycle } from '../runs/lifecycle.ts'
import type { LoseTurns } from './lost-turns.ts'
import { collectOutcomeChanges, noteDropped } from './outcome-changes.ts'

/** Cleans up when an agent leaves a space. */
export interface Leaving {
  /**
   * In the transaction that ends the membership: drops the agent's waiting inbox events of the
   * space (DROPPED) and ends its turns in chains. After it: cancels queued runs that the space
   * triggered (CANCELED, GONE), and pending approvals in the space. When a human leaves, approvals
   * that too few people can still decide are escalated, or EXPIRED.
   */
  onLeft(tx: Tx, member: Membership): Promise<{ afterCommit(): Promise<void> }>
  /** The same for events that arrived while the agent was leaving: no cycle reads them, and they are DROPPED. */
  sweep(): Promise<void>
}

interface Membership {
  spaceId: string
  entityId: string
}

interface LeavingParts {
  loseTurns: LoseTurns
  lifecycle: Pick<Lifecycle, 'leave'>
  approvals: Pick<Approvals, 'recheck'>
}

export function createLeaving({ db, log }: Platform, { loseTurns, lifecycle, approvals }: LeavingParts): Leaving {
  async function onLeft(tx: Tx, { spaceId, entityId: agentId }: Membership) {
    const outcomes = collectOutcomeChanges(tx, log)
    const dropped = await dropWaiting(tx, agentId, spaceId)
    for (const { messageId } of dropped) {
      if (messageId !== null) await noteDropped(outcomes, { agentId, messageId, runId: null })
    }
    const lost = await loseTurns(tx, dropped)
    return {
      async afterCommit() {
        await outcomes.announce()
        await lost.afterCommit()
        await lifecycle.leave({ agentId, spaceId })
        await approvals.recheck({ spaceId })
      },
    }
  }

  return {
    onLeft,
    async sweep() {
      const left = await db.prisma.$queryRaw<Membership[]>`
        SELECT DISTINCT w."spaceId", w."agentId" AS "entityId" FROM (
          SELECT "spaceId", "agentId" FROM "InboxEvent" WHERE "doneAt" IS NULL AND "runId" IS NULL
          UNION ALL SELECT "spaceId", "agentId" FROM "InboxEvent" WHERE "retryAt" IS NOT NULL
        ) w WHERE w."spaceId" IS NOT NULL AND NOT EXISTS (
          SELECT 1 FROM "Membership" m WHERE m."spaceId" = w."spaceId" AND m."entityId" = w."agentId")`
      for (const member of left) {
        const { afterCommit } = await db.transaction((tx) => onLeft(tx, member))
        await afterCommit()
      }
    },
  }
}

function dropWaiting(tx: Tx, agentId: string, spaceId: string): Promise<InboxEvent[]> {
  return tx.$queryRaw<InboxEvent[]>`
    UPDATE "InboxEvent" SET "doneAt" = now(), "retryAt" = NULL
    WHERE "agentId" = ${agentId} AND "spaceId" = ${spaceId} AND "doneAt" IS NULL AND ("runId" IS NULL OR "retryAt" IS NOT NULL)
    RETURNING *`
}
