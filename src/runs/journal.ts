import type { ModelMessage } from 'ai'
import type { Step, ToolCall, ToolCallStatus, ToolExecution } from '../generated/prisma/client.ts'
import { Prisma } from '../generated/prisma/client.ts'
import { newId } from '../lib/ids.ts'
import { type Json, jsonbText, toJson } from '../lib/json.ts'
import type { Tx } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'
import { RunLostError } from '../spaces/posting.ts'
import type { Claim } from './lifecycle.ts'

/** Tokens of one step or one run; `estimated` where the provider gave no figures. */
export interface Usage {
  inputTokens: number
  outputTokens: number
  estimated: boolean
}

/** A generation, from what it was sent to what came back. */
export interface Generation {
  index: number
  model: string
  /** Null: as in the step before. */
  instructions: string | null
  /** How many of the messages that the step before was sent stand first; what that step added and `messagesAdded` follow them. */
  messagesKept: number
  messagesAdded: ModelMessage[]
  activeTools: string[]
  assistant: ModelMessage
  finishReason: string
  usage: Usage
  msToFirstChunk: number | null
  startedAt: Date
  durationMs: number
}

/** A tool call as the model made it. */
export interface NewToolCall {
  id: string
  modelCallId: string
  toolName: string
  execution: ToolExecution | null
  /** FAILED: it named no tool, or its input was no JSON. */
  status: Extract<ToolCallStatus, 'RUNNING' | 'FAILED'>
  input: Json
  output: Json
  error: string | null
  /** What it must remember over a crash from the beginning: where it shows. */
  state: Json
}

/** What came of a tool call. */
export interface Settlement {
  status: Extract<ToolCallStatus, 'DONE' | 'FAILED' | 'TIMED_OUT'>
  output: Json
  error: string | null
}

/** What a run goes on from of a step. */
export type JournaledGeneration = Pick<
  Step,
  | 'index'
  | 'instructions'
  | 'messagesAdded'
  | 'assistant'
  | 'finishReason'
  | 'inputTokens'
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
 * RunLostError once the run is not this claim's any more, and marks the claim as fruitful.
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
  /** What an unfinished generation cost, of a run that was stopped, failed or is handed back: allowed after its end. */
  abandoned(claim: Claim, usage: Usage): Promise<void>
  /** The run's active space, and the last message there. */
  entered(claim: Claim, spaceId: string, seq: number): Promise<void>
  /** What a tool call must remember over a crash. */
  remember(claim: Claim, toolCallId: string, state: Json): Promise<void>
  read(runId: string): Promise<JournaledStep<Step, ToolCall>[]>
}

export function createJournal({ db }: Platform): Journal {
  /** Runs a statement that yields no row when the claim is void. */
  async function fenced(claim: Claim, statement: Prisma.Sql, tx: Tx = db.prisma): Promise<void> {
    const rows = await tx.$queryRaw<unknown[]>(statement)
    if (rows.length === 0) throw new RunLostError(claim.run.id)
  }

  return {
    async generated(claim, generation, calls) {
      await fenced(claim, generationStatement(claim, generation, calls))
      return journaledStep(generation, calls)
    },
    async settled(claim, toolCallId, settlement) {
      await fenced(claim, settlementStatement(claim, toolCallId, settlement))
    },
    async carriedOut(claim, toolCallId, work) {
      return db.transaction(async (tx) => {
        // The run first, as who stops or ends it does.
        await fenced(claim, fence(claim), tx)
        const output = toJson(await work(tx))
        await fenced(claim, settlementStatement(claim, toolCallId, { status: 'DONE', output, error: null }), tx)
        return output
      })
    },
    async abandoned({ run, attempt }, usage) {
      await db.prisma.$executeRaw`UPDATE "Run" SET ${counted(usage)} WHERE id = ${run.id} AND attempt = ${attempt}`
    },
    async entered(claim, spaceId, seq) {
      await fenced(claim, fence(claim, Prisma.sql`"activeSpaceId" = ${spaceId}, "enteredSeq" = ${seq}`))
    },
    async remember(claim, toolCallId, state) {
      await fenced(
        claim,
        Prisma.sql`WITH fence AS (${fence(claim)}) UPDATE "ToolCall" SET state = ${jsonbText(state)}::jsonb
          FROM fence WHERE "ToolCall".id = ${toolCallId} RETURNING "ToolCall".id`,
      )
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
  const { index, instructions, finishReason, usage } = generation
  const messagesAdded = generation.messagesAdded as unknown as Prisma.JsonValue
  const assistant = generation.assistant as unknown as Prisma.JsonValue
  return {
    step: {
      index,
      instructions,
      messagesAdded,
      assistant,
      finishReason,
      inputTokens: usage.inputTokens,
      outputTokens: usage.outputTokens,
      usageEstimated: usage.estimated,
    },
    calls: calls.map((call) => ({ ...call, settledAt: call.status === 'FAILED' ? generation.startedAt : null })),
  }
}

function counted({ inputTokens, outputTokens, estimated }: Usage): Prisma.Sql {
  return Prisma.sql`"inputTokens" = "inputTokens" + ${inputTokens}, "outputTokens" = "outputTokens" + ${outputTokens},
    "usageEstimated" = "usageEstimated" OR ${estimated}`
}

/** Touches the run, if it is still the claim's; a stop that comes at the same time waits for the statement. */
function fence({ run, attempt }: Claim, set?: Prisma.Sql): Prisma.Sql {
  return Prisma.sql`UPDATE "Run" SET "fruitlessAttempts" = 0${set === undefined ? Prisma.empty : Prisma.sql`, ${set}`}
    WHERE id = ${run.id} AND status = 'RUNNING' AND attempt = ${attempt} RETURNING id AS "runId", "agentId"`
}

function settlementStatement(claim: Claim, toolCallId: string, { status, output, error }: Settlement): Prisma.Sql {
  return Prisma.sql`WITH fence AS (${fence(claim)})
    UPDATE "ToolCall" SET status = ${status}::"ToolCallStatus", output = ${jsonbText(output)}::jsonb, error = ${error},
      "settledAt" = now()
    FROM fence WHERE "ToolCall".id = ${toolCallId} RETURNING "ToolCall".id`
}

function generationStatement(claim: Claim, generation: Generation, calls: NewToolCall[]): Prisma.Sql {
  const { index, model, instructions, messagesKept, usage, finishReason, msToFirstChunk, startedAt, durationMs } =
    generation
  return Prisma.sql`
    WITH fence AS (${fence(claim, Prisma.sql`"stepCount" = ${index + 1}, ${counted(usage)}`)}), step AS (
      INSERT INTO "Step" (id, "runId", index, model, instructions, "messagesKept", "followsResponse", "messagesAdded", "activeTools", assistant,
        "finishReason", "inputTokens", "outputTokens", "usageEstimated", "msToFirstChunk", "durationMs", "startedAt")
      SELECT ${newId('stp')}, "runId", ${index}, ${model}, ${instructions}, ${messagesKept}, true,
        ${jsonbText(generation.messagesAdded)}::jsonb, ${generation.activeTools}, ${jsonbText(generation.assistant)}::jsonb,
        ${finishReason}, ${usage.inputTokens}, ${usage.outputTokens}, ${usage.estimated}, ${msToFirstChunk}, ${durationMs}, ${startedAt}
      FROM fence
    ), calls AS (
      INSERT INTO "ToolCall" (id, "runId", "agentId", "stepIndex", "modelCallId", "toolName", execution, status, input, output, error, state, "settledAt")
      SELECT c.id, fence."runId", fence."agentId", ${index}, c."modelCallId", c."toolName", c.execution::"ToolExecution",
        c.status::"ToolCallStatus", c.input, CASE c.status WHEN 'FAILED' THEN c.output END, c.error, c.state, CASE c.status WHEN 'FAILED' THEN now() END
      FROM fence, jsonb_to_recordset(${jsonbText(calls)}::jsonb) AS c(id text, "modelCallId" text, "toolName" text,
        execution text, status text, input jsonb, output jsonb, error text, state jsonb)
      ON CONFLICT (id) DO UPDATE SET "stepIndex" = EXCLUDED."stepIndex", "modelCallId" = EXCLUDED."modelCallId",
        status = EXCLUDED.status, input = EXCLUDED.input, output = EXCLUDED.output, error = EXCLUDED.error, state = EXCLUDED.state,
        "settledAt" = EXCLUDED."settledAt"
    )
    SELECT "runId" FROM fence`
}
