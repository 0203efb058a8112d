import type { Run } from '../generated/prisma/client.ts'
import type { Tx } from '../platform/db.ts'
import type { RunEnding } from '../runs/lifecycle.ts'

/** What the end of a run means for others. */
export interface RunEnd {
  /** In the transaction that ends the run: its outcome, a handoff, its chain. */
  onRunEnded(tx: Tx, run: Run, ending: RunEnding): Promise<{ afterCommit(): Promise<void> }>
}

/** A run that called `skip` leaves the outcome SKIPPED with the message that triggered it. */
export function createRunEnd(): RunEnd {
  return {
    async onRunEnded(tx, run, ending) {
      if (ending.status === 'COMPLETED' && ending.skipped !== undefined && run.triggerMessageId !== null) {
        await tx.outcome.updateMany({
          where: { messageId: run.triggerMessageId, agentId: run.agentId },
          data: { kind: 'SKIPPED', reason: ending.skipped.reason },
        })
      }
      return { async afterCommit() {} }
    },
  }
}
