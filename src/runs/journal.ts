import type { ModelMessage } from 'ai'
import { setsNow, setsOf, take } from '../confidence/marks.ts'
import type { ModelPrices } from '../config.ts'
import type { Step, ToolCall } from '../generated/prisma/client.ts'
import { Prisma } from '../generated/prisma/client.ts'
import { newId } from '../lib/ids.ts'
import { type Json, jsonbText, toJson } from '../lib/json.ts'
import { inKeyOrder, keyOrdersText } from '../lib/key-orders.ts'
import { costOf } from '../lib/model-cost.ts'
import type { Tx } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'
import { holdOf, RunLostError } from './hold.ts'
import { countInLedger, countLost, type Spending, settledInRun, type Usage } from './ledger.ts'
import type { Claim } from './lifecycle.ts'
import { type NewToolCall, recorded, remembered, type Settlement, settled } from './tool-calls.ts'
import type { Withheld } from './withheld.ts'

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
  /** Of what its mind keeps, what it was not shown. */
  withheld?: Withheld[]
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
  | 'costNanos'
>

/** What a run goes on from of a call. */
export type JournaledCall = Pick<
  ToolCall,
  | 'id'
  | 'modelCallId'
  | 'toolName'
  | 'execution'
  | 'status'
  | 'input'
  | 'output'
  | 'state'
  | 'settledAt'
  | 'approval'
  | 'approvalState'
  | 'carryAt'
>

/** A step as it was journaled, with its calls in the order in which the model made them. It is over when all of them are settled. */
export interface JournaledStep<S = JournaledGeneration, C = JournaledCall> {
  step: S
  calls: C[]
}

/** A step that was just journaled. */
export interface KeptStep extends JournaledStep {
  /** The run's end is written with it. */
  hasEnded?: true
}

interface Marked {
  /** The run's, as it is written. */
  label: string[]
}

interface Ended extends Marked {
  hasEnded: boolean
}

const MARKS = Prisma.sql`SELECT "runLabel" AS label FROM held`

/** Rows of steps with their calls, as they were journaled; both in order, of any number of runs. */
export function journaledSteps<S extends Pick<Step, 'runId' | 'index' | 'assistant' | 'keyOrders'>>(
  steps: S[],
  calls: ToolCall[],
): JournaledStep<S, ToolCall>[] {
  const byStep = Map.groupBy(calls, ({ runId, stepIndex }) => `${runId}/${stepIndex}`)
  return steps.map((step) => ({
    step: { ...step, assistant: inKeyOrder(step.assistant as Json, step.keyOrders) },
    calls: (byStep.get(`${step.runId}/${step.index}`) ?? []).map((call) => ({
      ...call,
      input: inKeyOrder(call.input as Json, step.keyOrders),
      output: inKeyOrder(call.output as Json, call.outputKeyOrders),
    })),
  }))
}

/**
 * What a run has done, written as it does it: a run that is taken up again goes on from here. Every write is refused with
 * RunLostError once the run is not this claim's any more; a generation and a result mark the claim as fruitful, what would be written
 * anew by each attempt does not.
 */
export interface Journal {
  /**
   * A generation has ended: its assistant message and its tool calls, before any of them is executed; counts its usage.
   * `completing` says whether the run ends with the step, and how: then that is written with it, where nothing else follows from the end.
   * @returns the step as it stands in the journal now
   */
  generated(
    claim: Claim,
    generation: Generation,
    calls: NewToolCall[],
    completing?: (step: JournaledStep) => Prisma.Sql | null,
  ): Promise<KeptStep>
  /** A tool returned. */
  settled(claim: Claim, toolCallId: string, settlement: Settlement): Promise<void>
  /**
   * What a tool changes in the database, and what comes of it as the call's result, in one transaction: whoever takes the run
   * up after a crash finds both or neither. On record for each of what `work` has `changed`, by id; where it says nothing, for the agent.
   */
  carriedOut(
    claim: Claim,
    toolCallId: string,
    work: (tx: Tx, changed: (ids: readonly string[]) => void) => Promise<Json>,
  ): Promise<Json>
  /**
   * What a generation used that led to nothing, of a run that was stopped, failed or is handed back: allowed after its end, and where
   * nothing of the run is left.
   */
  abandoned(claim: Claim, usage: Usage, model: string): Promise<void>
  /** The run's active space, and the last message there. */
  entered(claim: Claim, spaceId: string, seq: number): Promise<void>
  /** What the run has been shown by now. */
  marked(claim: Claim): Promise<void>
  /** What a tool call must remember over a crash. */
  remember(claim: Claim, toolCallId: string, state: Json): Promise<void>
  read(runId: string): Promise<JournaledStep<Step, ToolCall>[]>
}

export function createJournal({ db, config: { prices } }: Platform): Journal {
  return {
    async generated(claim, generation, calls, completing) {
      const spent = spendingOf(prices, generation.usage, generation.model)
      const step = journaledStep(generation, calls, spent)
      const end = completing?.(step) ?? null
      const marks = setsNow(claim.run)
      const sets = [
        Prisma.sql`"stepCount" = ${generation.index + 1}`,
        settledInRun(spent),
        marks,
        ...(end ? [end] : []),
      ]
      const changes = {
        ...countInLedger(spent),
        ...{ step: recordedStep(generation, spent), calls: recorded(generation.index, calls) },
        end: Prisma.sql`SELECT "runStatus" <> 'RUNNING' AS "hasEnded", "runLabel" AS label FROM held`,
      }
      const written = holdOf(db, claim).write<Ended>(changes, { sets: Prisma.join(sets), isProgress: true })
      const row = await written.catch(async (error) => {
        if (error instanceof RunLostError) await countLost(db, claim.run, spent)
        throw error
      })
      take(claim.run, { label: row?.label ?? [] })
      return { ...step, ...(row?.hasEnded === true ? { hasEnded: true } : {}) }
    },
    async settled(claim, toolCallId, settlement) {
      const changes = { call: settled(toolCallId, settlement), marks: MARKS }
      const row = await holdOf(db, claim).write<Marked>(changes, { sets: setsNow(claim.run), isProgress: true })
      take(claim.run, { label: row?.label ?? [] })
    },
    async carriedOut(claim, toolCallId, work) {
      const hold = holdOf(db, claim)
      return hold.transaction(
        async (tx) => {
          let targetIds: readonly string[] = [claim.run.agentId]
          const output = toJson(
            await work(tx, (ids) => {
              targetIds = ids
            }),
          )
          const call = settled(toolCallId, { status: 'DONE', output, error: null })
          const changes = { record: recordOf(toolCallId, targetIds), call, marks: MARKS }
          const row = await hold.write<Marked>(changes, { sets: setsNow(claim.run), tx })
          take(claim.run, { label: row?.label ?? [] })
          return output
        },
        { isProgress: true },
      )
    },
    abandoned: ({ run }, usage, model) => countLost(db, run, spendingOf(prices, usage, model)),
    async entered(claim, spaceId, seq) {
      const sets = Prisma.sql`"activeSpaceId" = ${spaceId}, "enteredSeq" = ${seq}, ${setsOf(claim.run)}`
      await holdOf(db, claim).write({}, { sets })
    },
    async marked(claim) {
      await holdOf(db, claim).write({}, { sets: setsOf(claim.run) })
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

/** What an agent did to the server by a tool, for the audit log. */
function recordOf(toolCallId: string, targetIds: readonly string[]): Prisma.Sql {
  return Prisma.sql`
    INSERT INTO "AuditEntry" (id, "actorId", action, "targetId", detail)
    SELECT t.id, h."agentId", 'tool:' || c."toolName", t."targetId", jsonb_build_object('runId', h."runId", 'toolCallId', c.id)
    FROM held h, "ToolCall" c, unnest(${targetIds.map(() => newId('aud'))}::text[], ${[...targetIds]}::text[]) AS t(id, "targetId")
    WHERE c.id = ${toolCallId}`
}

function spendingOf(prices: ModelPrices, usage: Usage, model: string): Spending {
  const price = prices.get(model)
  return { ...usage, model, costNanos: price === undefined ? null : costOf(price, usage) }
}

/** The rows of a generation, as they were just written. */
function journaledStep(generation: Generation, calls: NewToolCall[], { costNanos }: Spending): JournaledStep {
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
      costNanos,
    },
    calls: calls.map((call) => ({
      ...call,
      ...NOT_ASKED,
      settledAt: call.status === 'FAILED' ? generation.startedAt : null,
    })),
  }
}

const NOT_ASKED = { approval: null, approvalState: null, carryAt: null }

function recordedStep(generation: Generation, { costNanos }: Spending): Prisma.Sql {
  const { index, model, instructions, usage, finishReason, msToFirstChunk, startedAt, durationMs } = generation
  const { messagesKept, followsResponse, withheld = [] } = generation
  return Prisma.sql`
    INSERT INTO "Step" (id, "runId", index, model, instructions, "messagesKept", "followsResponse", "messagesAdded", "activeTools", assistant, "keyOrders",
      "finishReason", "failedModels", "inputTokens", "cachedInputTokens", "outputTokens", "usageEstimated", "costNanos", "msToFirstChunk", "durationMs", "startedAt", label, withheld)
    SELECT ${newId('stp')}, "runId", ${index}, ${model}, ${instructions}, ${messagesKept}, ${followsResponse},
      ${jsonbText(generation.messagesAdded)}::jsonb, ${generation.activeTools}, ${jsonbText(generation.assistant)}::jsonb, ${keyOrdersText(generation.assistant)}::jsonb,
      ${finishReason}, ${jsonbText(generation.failedModels)}::jsonb, ${usage.inputTokens}, ${usage.cachedInputTokens}, ${usage.outputTokens}, ${usage.estimated}, ${costNanos}::float8, ${msToFirstChunk}, ${durationMs}, ${startedAt},
      "runLabel", ${withheld.length === 0 ? null : jsonbText(withheld)}::jsonb
    FROM held`
}
