import { Prisma } from '../generated/prisma/client.ts'
import type { Tx } from '../platform/db.ts'

/** How a run ends, and why. */
export type RunEnding =
  | {
      status: 'COMPLETED'
      stopReason: 'FINISHED' | 'SKIPPED' | 'ALL_ANSWERED' | 'MAX_STEPS' | 'MAX_TOOL_CALLS' | 'TOKEN_BUDGET'
      summary: string | null
      /** The run called skip. */
      skipped?: { reason: string | null }
    }
  | {
      status: 'FAILED'
      stopReason: 'MODEL_FAILED' | 'OVER_BUDGET' | 'TIME_LIMIT' | 'WORKER_LOST' | 'INTERNAL'
      error: string
      /** Its trigger is retried automatically, so this end is not shown as a failure. */
      isTriedAgain?: boolean
    }
  | { status: 'CANCELED'; stopReason: 'STOPPED'; stoppedById: string | null }
  /** Its agent left the triggering space before the run began, or the agent or that space was deleted. */
  | { status: 'CANCELED'; stopReason: 'GONE' }
  | { status: 'CANCELED'; stopReason: 'HANDED_ON'; delegated: Delegated }

/** The target of a delegation, and its space. */
export interface Delegated {
  targetAgentId: string
  spaceId: string
  reason: string | null
}

/** An end that a run reaches by itself. */
export type Completion = Omit<Extract<RunEnding, { status: 'COMPLETED' }>, 'skipped'>

/** Options for stopping a run. */
export interface StopOptions {
  cascade: boolean
  /** The human or agent that stops the run; null for the operator. */
  byId: string | null
  /** Further writes in the transaction that ends the run. */
  alongside?(tx: Tx): Promise<void>
}

/** The `sets` of a hold that complete the run if it `endsAlone`; otherwise they change nothing. */
export function completing({ status, stopReason, summary }: Completion, endsAlone: Prisma.Sql): Prisma.Sql {
  return Prisma.sql`
    (status, "finishedAt", "stopReason", summary, "claimableAt", "deadlineAt") = (
      SELECT CASE WHEN alone THEN ${status}::"RunStatus" ELSE status END, CASE WHEN alone THEN now() END,
        CASE WHEN alone THEN ${stopReason}::"RunStopReason" END, CASE WHEN alone THEN coalesce(${summary}, summary) ELSE summary END,
        CASE WHEN NOT alone THEN "claimableAt" END, CASE WHEN NOT alone THEN "deadlineAt" END
      FROM (SELECT ${endsAlone} AS alone) e)`
}

/** The error of a run that exceeded its time limit. */
export function outOfTime(maxRunSeconds: number): string {
  return `The run exceeded the time limit of ${maxRunSeconds} s (PARLEY_MAX_RUN_SECONDS).`
}
