import type { OutcomeKind } from '../generated/prisma/client.ts'
import type { Tx } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'
import { spaceTopic } from '../realtime/topics.ts'

/** A change of a message's outcome for an agent after routing. */
export interface OutcomeChange {
  messageId: string
  agentId: string
  kind: OutcomeKind
  reason: string | null
  /** The first line of the error, for FAILED. */
  error?: string | null
  runId: string | null
}

/** The outcome changes of one transaction. */
export interface OutcomeChanges {
  /** Overwrites the outcome. */
  set(change: OutcomeChange): Promise<void>
  /** After the commit: publishes the changed messages. */
  announce(): Promise<void>
}

export function collectOutcomeChanges(tx: Tx, log: Platform['log']): OutcomeChanges {
  const changed = new Map<string, string>()
  return {
    async set({ messageId, agentId, kind, reason, error = null, runId }) {
      const [row] = await tx.$queryRaw<{ spaceId: string }[]>`
        INSERT INTO "Outcome" ("messageId", "agentId", kind, reason, error, "runId")
        VALUES (${messageId}, ${agentId}, ${kind}::"OutcomeKind", ${reason}, ${error}, ${runId})
        ON CONFLICT ("messageId", "agentId") DO UPDATE
          SET kind = excluded.kind, reason = excluded.reason, error = excluded.error, "runId" = excluded."runId"
        RETURNING (SELECT "spaceId" FROM "Message" WHERE id = "messageId") AS "spaceId"`
      if (row?.spaceId != null) changed.set(messageId, row.spaceId)
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
    reason: 'The agent left the space, or was deleted, before it read the message.',
  })
}
