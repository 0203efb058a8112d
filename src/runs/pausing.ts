import type { Tx } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'
import { JOBS_CHANNEL } from '../realtime/topics.ts'

/** Effects of pausing an agent on its runs: active ones continue, QUEUED ones wait until it is resumed. */
export interface Pausing {
  /** In the transaction that changes the agent. */
  onPaused(tx: Tx, agentId: string, paused: boolean): Promise<{ afterCommit(): Promise<void> }>
}

export function createPausing({ signals }: Pick<Platform, 'signals'>): Pausing {
  return {
    async onPaused(tx, agentId, paused) {
      await tx.$executeRaw`
        UPDATE "Run" SET "claimableAt" = CASE WHEN ${paused}::boolean THEN NULL ELSE clock_timestamp() END
        WHERE "agentId" = ${agentId} AND status = 'QUEUED'`
      return {
        async afterCommit() {
          if (!paused) await signals.publish(JOBS_CHANNEL, {})
        },
      }
    },
  }
}
