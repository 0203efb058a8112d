import { Prisma } from '../generated/prisma/client.ts'
import type { Tx } from '../platform/db.ts'

/** How a run ends, and why. */
export type RunEnding =
  | {
      status: 'COMPLETED'
      stopReason: 'FINISHED' | 'SKIPPED' | 'ALL_ANSWERED' | 'MAX_STEPS' | 'MAX_TOOL_CALLS' | 'TOKEN_BUDGET'
      summary: string | null
      /** It called skip. */
      skipped?: { reason: string | null }
    }
  | {
      status: 'FAILED'
      stopReason: 'MODEL_FAILED' | 'OVER_BUDGET' | 'TIME_LIMIT' | 'WORKER_LOST' | 'INTERNAL'
      error: string
      /** What it was to do is tried again by itself: that is its end for nobody else. */
      isTriedAgain?: boolean
    }
  | { status: 'CANCELED'; stopReason: 'STOPPED'; stoppedById: string | null }
  /** Its agent left the space that had triggered it, before it began; or the agent or that space was deleted. */
  | { status: 'CANCELED'; stopReason: 'GONE' }
  | { status: 'CANCELED'; stopReason: 'HANDED_ON'; delegated: Delegated }

/** To whom a run's trigger was handed, and in which space. */
export interface Delegated {
  targetAgentId: string
  spaceId: string
  reason: string | null
}

/** An end to which a run comes by itself. */
export type Completion = Omit<Extract<RunEnding, { status: 'COMPLETED' }>, 'skipped'>

/** How a run is stopped by somebody. */
export interface StopOptions {
  cascade: boolean
  /** The human or agent that stops it; null for the operator. */
  byId: string | null
  /** What is written in the transaction that ends it. */
  alongside?(tx: Tx): Promise<void>
}

/** What ends a run in the `sets` of its hold, if it `endsAlone`: else it goes on. */
export function completing({ status, stopReason, summary }: Completion, endsAlone: Prisma.Sql): Prisma.Sql {
  return Prisma.sql`
    (status, "finishedAt", "stopReason", summary, "claimableAt", "deadlineAt") = (
      SELECT CASE WHEN alone THEN ${status}::"RunStatus" ELSE status END, CASE WHEN alone THEN now() END,
        CASE WHEN alone THEN ${stopReason}::"RunStopReason" END, CASE WHEN alone THEN coalesce(${summary}, summary) ELSE summary END,
        CASE WHEN NOT alone THEN "claimableAt" END, CASE WHEN NOT alone THEN "deadlineAt" END
      FROM (SELECT ${endsAlone} AS alone) e)`
}

/** What a run that took too long is told to have ended of. */
export function outOfTime(maxRunSeconds: number): string {
  return `The run exceeded the time limit of ${maxRunSeconds} s (PARLEY_MAX_RUN_SECONDS).`
}
