import { Prisma, type Step } from '../generated/prisma/client.ts'
import { newId } from '../lib/ids.ts'
import { jsonbText } from '../lib/json.ts'
import { keyOrdersText } from '../lib/key-orders.ts'
import type { Tx } from '../platform/db.ts'
import { insertionOf } from '../platform/insertion.ts'
import type { Usage } from './run-store.ts'

// Contains the statements that write the table "Step".

/** A generation to write to the journal. */
export interface NewStep
  extends Pick<
    Step,
    | 'index'
    | 'model'
    | 'instructions'
    | 'messagesKept'
    | 'followsResponse'
    | 'activeTools'
    | 'finishReason'
    | 'msToFirstChunk'
    | 'startedAt'
    | 'durationMs'
  > {
  failedModels: readonly object[]
  messagesAdded: readonly object[]
  assistant: object
  usage: Usage
  withheld?: readonly object[]
}

/**
 * Returns a CTE for a fenced write (runs/hold.ts). The CTE writes a generation to the run's journal. `costNanos` is
 * null if the model has no price. `enteredSeq` is the `seq` of the last message in the space that the run had read.
 */
export function insertStepSql(
  generation: NewStep,
  { costNanos, enteredSeq }: { costNanos: number | null; enteredSeq: number | null },
): Prisma.Sql {
  const { index, model, instructions, usage, finishReason, msToFirstChunk, startedAt, durationMs } = generation
  const { messagesKept, followsResponse, withheld = [] } = generation
  return Prisma.sql`
    INSERT INTO "Step" (id, "runId", index, model, instructions, "messagesKept", "followsResponse", "messagesAdded", "activeTools", assistant, "keyOrders",
      "finishReason", "failedModels", "inputTokens", "cachedInputTokens", "outputTokens", "usageEstimated", "costNanos", "msToFirstChunk", "durationMs", "startedAt", label, withheld, "enteredSeq")
    SELECT ${newId('stp')}, "runId", ${index}, ${model}, ${instructions}, ${messagesKept}, ${followsResponse},
      ${jsonbText(generation.messagesAdded)}::jsonb, ${generation.activeTools}, ${jsonbText(generation.assistant)}::jsonb, ${keyOrdersText(generation.assistant)}::jsonb,
      ${finishReason}, ${jsonbText(generation.failedModels)}::jsonb, ${usage.inputTokens}, ${usage.cachedInputTokens}, ${usage.outputTokens}, ${usage.estimated}, ${costNanos}::float8, ${msToFirstChunk}, ${durationMs}, ${startedAt},
      "runLabel", ${withheld.length === 0 ? null : jsonbText(withheld)}::jsonb, ${enteredSeq}::int
    FROM held`
}

/** Writes the steps that a repeated run shares with the original run. */
export async function insertCopiedSteps(tx: Tx, steps: readonly Step[]): Promise<void> {
  if (steps.length > 0) await tx.$queryRaw(insertionOf('Step', steps))
}
