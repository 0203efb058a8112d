import type { ModelMessage } from 'ai'
import { type Marks, marksTogether, setsNow, setsOf } from '../confidentiality/marks.ts'
import type { ModelPrices } from '../config.ts'
import type { Step, ToolCall } from '../generated/prisma/client.ts'
import { Prisma } from '../generated/prisma/client.ts'
import { type Json, toJson } from '../lib/json.ts'
import { inKeyOrder } from '../lib/key-orders.ts'
import { costOf } from '../lib/model-cost.ts'
import type { Tx } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'
import { insertToolEntriesSql } from '../stores/audit-store.ts'
import {
  type NewToolCall,
  recordCallsSql,
  type Settlement,
  saveCallStateSql,
  settleCall,
} from '../stores/call-store.ts'
import { type Spending, settleUsageSql, type Usage } from '../stores/run-store.ts'
import { insertStepSql } from '../stores/step-store.ts'
import { countInLedger, countLost } from '../stores/usage-store.ts'
import type { Claim } from './claiming.ts'
import { holdOf, RunLostError } from './hold.ts'
import type { Withheld } from './withheld.ts'

/** A model that failed or was skipped before another model responded, and the reason. */
export interface FailedModel {
  model: string
  error: string
}

/** A generation: its prompt and its response. */
export interface Generation {
  index: number
  /** The model that responded. */
  model: string
  failedModels: FailedModel[]
  /** The instructions; null if they are the same as in the previous step. */
  instructions: string | null
  /**
   * The number of messages at the beginning of the prompt that are the same as in the previous step's prompt. After
   * them come the messages that the previous step added, and `messagesAdded`.
   */
  messagesKept: number
  /**
   * Whether the messages that the previous step added come between the kept messages and `messagesAdded`. False if new
   * messages precede them; `messagesAdded` then contains them.
   */
  followsResponse: boolean
  messagesAdded: ModelMessage[]
  activeTools: string[]
  assistant: ModelMessage
  finishReason: string
  usage: Usage
  msToFirstChunk: number | null
  startedAt: Date
  durationMs: number
  /** The parts of the agent's context that were omitted from the prompt. */
  withheld?: Withheld[]
}

/** The fields of a step that a resumed run needs. */
export type JournaledGeneration = Pick<
  Step,
  | 'index'
  | 'model'
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

/** The fields of a call that a resumed run needs. */
export type JournaledCall = Pick<
  ToolCall,
  | 'id'
  | 'modelCallId'
  | 'toolName'
  | 'execution'
  | 'status'
  | 'input'
  | 'output'
  | 'files'
  | 'state'
  | 'settledAt'
  | 'approval'
  | 'approvalState'
  | 'carryAt'
  | 'grantId'
>

/**
 * A journaled step with its calls, in the order in which the model generated them. It is finished when all calls are
 * settled.
 */
export interface JournaledStep<S = JournaledGeneration, C = JournaledCall> {
  step: S
  calls: C[]
}

/** A step that has just been journaled. */
export interface KeptStep extends JournaledStep {
  /** Set if the same write has ended the run. */
  hasEnded?: true
  /** The run's label, written together with the step. */
  label: readonly string[]
}

/**
 * The confidentiality label that a write has just stored with a run. It includes spaces that have become confidential
 * in the meantime.
 */
export interface WrittenLabel {
  label: readonly string[]
}

/** The result of a tool that changed the database, and the sources of its output. */
export interface WorkResult {
  output: Json
  learned?: Partial<Marks>
}

interface Ended extends WrittenLabel {
  hasEnded: boolean
}

const MARKS = Prisma.sql`SELECT "runLabel" AS label FROM held`

/** Combines steps with their calls, both in order. The rows can belong to several runs. */
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
 * The stored progress of a run, from which the next attempt resumes. Every write throws RunLostError if the run no
 * longer belongs to the attempt. Generations and results are counted as progress of the attempt. Writes that every
 * attempt repeats are not counted.
 */
export interface Journal {
  /**
   * Journals a generation (an assistant message and its tool calls) before any call is executed, and records its usage.
   * If `completing` returns SQL, the same write completes the run with this SQL, unless the end of the run has other
   * effects.
   * @returns the journaled step
   */
  generated(
    claim: Claim,
    generation: Generation,
    calls: NewToolCall[],
    completing?: (step: JournaledStep) => Prisma.Sql | null,
  ): Promise<KeptStep>
  /** Journals the result of a call. */
  settled(claim: Claim, toolCallId: string, settlement: Settlement): Promise<WrittenLabel>
  /**
   * Makes a tool's database changes and stores its result in one transaction, so that a resumed run finds both or
   * neither. Adds the sources of the tool's output to the run's marks. Writes an audit entry for each id that `work`
   * passes to `changed`. If `work` passes none, writes one entry for the agent.
   */
  settledWith(
    claim: Claim,
    toolCallId: string,
    work: (tx: Tx, changed: (ids: readonly string[]) => void) => Promise<WorkResult>,
  ): Promise<{ output: Json; learned: Marks }>
  /**
   * Records the usage of an aborted generation when its run was stopped, has failed, or is being released. Also works
   * for a run that has ended or was deleted.
   */
  abandoned(claim: Claim, usage: Usage, model: string): Promise<void>
  /** Stores the run's active space, and the `seq` of the last message in it. */
  entered(claim: Claim, spaceId: string, seq: number): Promise<void>
  /** Stores the run's confidentiality label. */
  marked(claim: Claim): Promise<void>
  /** Stores the state of a tool call, for recovery after a crash. */
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
        settleUsageSql(spent),
        marks,
        ...(end ? [end] : []),
      ]
      const changes = {
        ...countInLedger(spent),
        step: insertStepSql(generation, { costNanos: spent.costNanos, enteredSeq: claim.run.enteredSeq }),
        calls: recordCallsSql(generation.index, calls),
        end: Prisma.sql`SELECT "runStatus" <> 'RUNNING' AS "hasEnded", "runLabel" AS label FROM held`,
      }
      const written = holdOf(db, claim).write<Ended>(changes, { sets: Prisma.join(sets), isProgress: true })
      const row = await written.catch(async (error) => {
        if (error instanceof RunLostError) await countLost(db, claim.run, spent)
        throw error
      })
      return { ...step, label: row?.label ?? [], ...(row?.hasEnded === true ? { hasEnded: true } : {}) }
    },
    async settled(claim, toolCallId, settlement) {
      const changes = { ...settleCall(toolCallId, settlement), marks: MARKS }
      const row = await holdOf(db, claim).write<WrittenLabel>(changes, { sets: setsNow(claim.run), isProgress: true })
      return { label: row?.label ?? [] }
    },
    async settledWith(claim, toolCallId, work) {
      const hold = holdOf(db, claim)
      return hold.transaction(
        async (tx) => {
          let targetIds: readonly string[] = [claim.run.agentId]
          const done = await work(tx, (ids) => {
            targetIds = ids
          })
          const output = toJson(done.output)
          const settled = settleCall(toolCallId, { status: 'DONE', output, error: null })
          const changes = { record: insertToolEntriesSql(toolCallId, targetIds), ...settled, marks: MARKS }
          const { places = [], label = [] } = done.learned ?? {}
          const marks = marksTogether([claim.run, { places, label }])
          const row = await hold.write<WrittenLabel>(changes, { sets: setsNow(marks), tx })
          return { output, learned: marksTogether([marks, { places: [], label: row?.label ?? [] }]) }
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
      await holdOf(db, claim).write({ call: saveCallStateSql(toolCallId, state) })
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

function spendingOf(prices: ModelPrices, usage: Usage, model: string): Spending {
  const price = prices.get(model)
  return { ...usage, model, costNanos: price === undefined ? null : costOf(price, usage) }
}

/** Returns the rows of a generation that was just written. */
function journaledStep(generation: Generation, calls: NewToolCall[], { costNanos }: Spending): JournaledStep {
  const { index, model, instructions, messagesKept, followsResponse, finishReason, usage } = generation
  const messagesAdded = generation.messagesAdded as unknown as Prisma.JsonValue
  const assistant = generation.assistant as unknown as Prisma.JsonValue
  return {
    step: {
      index,
      model,
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

const NOT_ASKED = { files: null, approval: null, approvalState: null, carryAt: null, grantId: null }
