import type { ModelMessage } from 'ai'
import type { Step, ToolCall } from '../generated/prisma/client.ts'
import { Prisma } from '../generated/prisma/client.ts'
import { newId } from '../lib/ids.ts'
import { type Json, jsonbText, toJson } from '../lib/json.ts'
import type { Tx } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'
import { holdOf } from './hold.ts'
import type { Claim } from './lifecycle.ts'
import { type NewToolCall, recorded, remembered, type Settlement, settled } from './tool-calls.ts'

/** Tokens of one step or one run; `estimated` where the provider gave no figures. */
export interface Usage {
  inputTokens: number
  /** Of `inputTokens`: what the provider had in its cache. */
  cachedInputTokens: number
  outputTokens: number
  estimated: boolean
}

/** A model that was asked before the one that spoke, or passed over, and why it did not speak. */
export interface FailedModel {
  model: string
  error: string
}

/** A generation, from what it was sent to what came back. */
export interface Generation {
  index: number
  /** The one that spoke. */
  model: string
  failedModels: FailedModel[]
  /** Null: as in the step before. */
  instructions: string | null
  /** How many of the messages that the step before was sent stand first; what that step added and `messagesAdded` follow them. */
  messagesKept: number
  /** Whether what that step added stands between them; false where `messagesAdded` hold it, with something new before it. */
  followsResponse: boolean
  messagesAdded: ModelMessage[]
  activeTools: string[]
  assistant: ModelMessage
  finishReason: string
  usage: Usage
  msToFirstChunk: number | null
  startedAt: Date
  durationMs: number
}

/** What a run goes on from of a step. */
export type JournaledGeneration = Pick<
  Step,
  | 'index'
  | 'instructions'
  | 'messagesKept'
  | 'followsResponse'
  | 'messagesAdded'
  | 'assistant'
  | 'finishReason'
  | 'inputTokens'
  | 'cachedInputTokens'
  | 'outputTokens'
  | 'usageEstimated'
>

/** What a run goes on from of a call. */
export type JournaledCall = Pick<
  ToolCall,
  'id' | 'modelCallId' | 'toolName' | 'execution' | 'status' | 'input' | 'output' | 'state' | 'settledAt'
>

/** A step as it was journaled, with its calls in the order in which the model made them. It is over when all of them are settled. */
export interface JournaledStep<S = JournaledGeneration, C = JournaledCall> {
  step: S
  calls: C[]
}

/** Steps with their calls; both in order, of any number of runs. */
export function journaledSteps<S extends Pick<Step, 'runId' | 'index'>>(
  steps: S[],
  calls: ToolCall[],
): JournaledStep<S, ToolCall>[] {
  const byStep = Map.groupBy(calls, ({ runId, stepIndex }) => `${runId}/${stepIndex}`)
  return steps.map((step) => ({ step, calls: byStep.get(`${step.runId}/${step.index}`) ?? [] }))
}

/** Whether every call of the step has its result. */
export function isStepOver({ calls }: Pick<JournaledStep, 'calls'>): boolean {
  return calls.every(({ settledAt }) => settledAt !== null)
}

/**
 * What a run has done, written as it does it: a run that is taken up again goes on from here. Every write is refused with
 * RunLostError once the run is not this claim's any more; a generation and a result mark the claim as fruitful, what would be written
 * anew by each attempt does not.
 */
export interface Journal {
  /**
   * A generation has ended: its assistant message and its tool calls, before any of them is executed; counts its usage.
   * @returns the step as it stands in the journal now
   */
  generated(claim: Claim, generation: Generation, calls: NewToolCall[]): Promise<JournaledStep>
  /** A tool returned. */
  settled(claim: Claim, toolCallId: string, settlement: Settlement): Promise<void>
  /**
   * What a tool changes in the database, and what comes of it as the call's result, in one transaction: whoever takes the run
   * up after a crash finds both or neither.
   */
  carriedOut(claim: Claim, toolCallId: string, work: (tx: Tx) => Promise<Json>): Promise<Json>
  /** What an unfinished generation of a model cost, of a run that was stopped, failed or is handed back: allowed after its end. */
  abandoned(claim: Claim, usage: Usage, model: string): Promise<void>
  /** The run's active space, and the last message there. */
  entered(claim: Claim, spaceId: string, seq: number): Promise<void>
  /** What a tool call must remember over a crash. */
  remember(claim: Claim, toolCallId: string, state: Json): Promise<void>
  read(runId: string): Promise<JournaledStep<Step, ToolCall>[]>
}

export function createJournal({ db }: Platform): Journal {
  return {
    async generated(claim, generation, calls) {
      const sets = Prisma.sql`"stepCount" = ${generation.index + 1}, ${counted(generation.usage)}`
      const changes = { step: recordedStep(generation), calls: recorded(generation.index, calls) }
      await holdOf(db, claim).write(changes, { sets, isProgress: true })
      return journaledStep(generation, calls)
    },
    async settled(claim, toolCallId, settlement) {
      await holdOf(db, claim).write({ call: settled(toolCallId, settlement) }, { isProgress: true })
    },
    async carriedOut(claim, toolCallId, work) {
      const hold = holdOf(db, claim)
      return hold.transaction(
        async (tx) => {
          const output = toJson(await work(tx))
          await hold.write({ call: settled(toolCallId, { status: 'DONE', output, error: null }) }, { tx })
          return output
        },
        { isProgress: true },
      )
    },
    async abandoned({ run, attempt }, usage) {
      await db.prisma.$executeRaw`UPDATE "Run" SET ${counted(usage)} WHERE id = ${run.id} AND attempt = ${attempt}`
    },
    async entered(claim, spaceId, seq) {
      const sets = Prisma.sql`"activeSpaceId" = ${spaceId}, "enteredSeq" = ${seq}`
      await holdOf(db, claim).write({}, { sets })
    },
    async remember(claim, toolCallId, state) {
      await holdOf(db, claim).write({ call: remembered(toolCallId, state) })
    },
    async read(runId) {
      const [steps, calls] = await Promise.all([
        db.prisma.step.findMany({ where: { runId }, orderBy: { index: 'asc' } }),
        db.prisma.toolCall.findMany({ where: { runId }, orderBy: { id: 'asc' } }),
      ])
      return journaledSteps(steps, calls)
    },
  }
}

/** The rows of a generation, as they were just written. */
function journaledStep(generation: Generation, calls: NewToolCall[]): JournaledStep {
  const { index, instructions, messagesKept, followsResponse, finishReason, usage } = generation
  const messagesAdded = generation.messagesAdded as unknown as Prisma.JsonValue
  const assistant = generation.assistant as unknown as Prisma.JsonValue
  return {
    step: {
      index,
      instructions,
      messagesKept,
      followsResponse,
      messagesAdded,
      assistant,
      finishReason,
      inputTokens: usage.inputTokens,
      cachedInputTokens: usage.cachedInputTokens,
      outputTokens: usage.outputTokens,
      usageEstimated: usage.estimated,
    },
    calls: calls.map((call) => ({ ...call, settledAt: call.status === 'FAILED' ? generation.startedAt : null })),
  }
}

/** Sums stop at what the columns hold: a provider's figures fail no run. */
function counted({ inputTokens, cachedInputTokens, outputTokens, estimated }: Usage): Prisma.Sql {
  const sum = (column: string, tokens: number) =>
    Prisma.sql`${Prisma.raw(`"${column}"`)} = least(${Prisma.raw(`"${column}"`)}::bigint + ${tokens}, 2147483647)::int`
  return Prisma.sql`${sum('inputTokens', inputTokens)}, ${sum('cachedInputTokens', cachedInputTokens)}, ${sum('outputTokens', outputTokens)},
    "usageEstimated" = "usageEstimated" OR ${estimated}`
}

function recordedStep(generation: Generation): Prisma.Sql {
  const { index, model, instructions, usage, finishReason, msToFirstChunk, startedAt, durationMs } = generation
  const { messagesKept, followsResponse } = generation
  return Prisma.sql`
    INSERT INTO "Step" (id, "runId", index, model, instructions, "messagesKept", "followsResponse", "messagesAdded", "activeTools", assistant,
      "finishReason", "failedModels", "inputTokens", "cachedInputTokens", "outputTokens", "usageEstimated", "msToFirstChunk", "durationMs", "startedAt")
    SELECT ${newId('stp')}, "runId", ${index}, ${model}, ${instructions}, ${messagesKept}, ${followsResponse},
      ${jsonbText(generation.messagesAdded)}::jsonb, ${generation.activeTools}, ${jsonbText(generation.assistant)}::jsonb,
      ${finishReason}, ${jsonbText(generation.failedModels)}::jsonb, ${usage.inputTokens}, ${usage.cachedInputTokens}, ${usage.outputTokens}, ${usage.estimated}, ${msToFirstChunk}, ${durationMs}, ${startedAt}
    FROM held`
}
