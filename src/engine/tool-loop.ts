import {
  isStepCount,
  jsonSchema,
  type LanguageModel,
  type LanguageModelCallEndEvent,
  type ModelMessage,
  type StepResult,
  tool as sdkTool,
  streamText,
  type ToolSet,
} from 'ai'
import type { Json } from '../lib/json.ts'
import type { Journal, NewToolCall, Usage } from '../runs/journal.ts'
import type { Claim } from '../runs/lifecycle.ts'
import type { RunEvents } from '../runs/run-events.ts'
import { takePlacement } from '../tools/placement.ts'
import { type Tool, WAITING } from '../tools/tool.ts'
import {
  answeredAsJournaled,
  assistantMessage,
  callsOf,
  createLiveGeneration,
  type LiveGeneration,
} from './generation.ts'
import { type Blame, ModelFailure } from './model-error.ts'
import { tapModel } from './model-tap.ts'
import type { SpaceWriter } from './space-writer.ts'
import { spentTokens, usageOf } from './token-usage.ts'
import type { ToolRunner } from './tool-runner.ts'

/** How a loop ended. */
export type LoopEnd =
  /** The model had nothing more to do, or may not do more; its closing words. */
  | { type: 'finished'; text: string | null }
  /** Calls wait for an answer from outside. */
  | { type: 'waiting'; callIds: string[] }
  | { type: 'failed'; error: string; blame: Blame }
  /** The signal aborted it. */
  | { type: 'aborted' }

/** What a step is sent, decided right before it. */
export interface StepPlan {
  instructions: string
  /** The whole list that the model gets. */
  messages: ModelMessage[]
  /** Of those, how many carry over to the next step; the rest are for this one only. */
  lasting: number
  model: { name: string; model: LanguageModel }
  activeTools: string[]
  toolChoice: 'auto' | 'required' | 'none'
}

export interface LoopInput {
  claim: Claim
  /** The steps that an earlier claim journaled; this loop's first step comes after them. */
  stepsBefore: { inputTokens: number; outputTokens: number }[]
  messages: ModelMessage[]
  tools: Map<string, Tool>
  maxSteps: number
  tokenBudget: number | null
  signal: AbortSignal
  /** `carried`: the messages so far, what lasts of earlier steps and what they added. */
  plan(step: number, carried: ModelMessage[]): Promise<StepPlan>
  /** How many of `messages`, the first, are on record elsewhere than in the journal. */
  recorded: number
  /** Further reasons to stop, after these steps of this loop. */
  isDone(steps: StepResult<ToolSet>[]): boolean
}

export interface LoopParts {
  journal: Journal
  runner: ToolRunner
  writer: SpaceWriter
  events: RunEvents
}

/** A run's tool loop: the one `streamText` call. Journals every generation before its tools run, and every step. */
export async function runToolLoop(input: LoopInput, parts: LoopParts): Promise<LoopEnd> {
  const loop = createLoop(input, parts)
  const signal = AbortSignal.any([input.signal, loop.broken.signal])
  const first = await loop.prepare(0, input.messages)
  const result = streamText({
    model: first.model.model,
    messages: input.messages,
    tools: loop.sdkTools,
    toolCallConcurrency: 1,
    stopWhen: [isStepCount(Math.max(1, input.maxSteps - input.stepsBefore.length)), loop.isOver],
    abortSignal: signal,
    maxRetries: 2,
    prepareStep: ({ stepNumber, messages }) => loop.stepSettings(stepNumber, messages, stepNumber === 0 ? first : null),
    onLanguageModelCallEnd: (event) => loop.generated(event),
    onStepEnd: (step) => loop.stepEnded(step),
    onError: ({ error }) => loop.failed(error),
  })
  await result.consumeStream({ onError: (error) => loop.failed(error) })
  const unfinished = loop.unfinished()
  if (unfinished !== null) await parts.journal.abandoned(input.claim, unfinished)
  return loop.end()
}

/** The state of one loop and the callbacks through which the SDK drives it. */
function createLoop(input: LoopInput, { journal, runner, writer, events }: LoopParts) {
  const { claim, tools, stepsBefore } = input
  const firstIndex = stepsBefore.length
  const spent: { inputTokens: number; outputTokens: number }[] = [...stepsBefore]
  const waiting: string[] = []
  const failed = new Map<string, Json>()
  const broken = new AbortController()
  let plan: StepPlan | null = null
  let previous: { instructions: string; lasting: number } | null = null
  let live: LiveGeneration | null = null
  let stepStartedAt = 0
  let fault: unknown = null
  let closing: { text: string; finishReason: string; calls: number } | null = null

  /** The SDK swallows what callbacks throw: it is kept, and the loop broken off. */
  async function guarded(work: () => Promise<void>): Promise<void> {
    try {
      await work()
    } catch (error) {
      fault ??= error
      broken.abort(error)
    }
  }

  async function prepare(stepNumber: number, carried: ModelMessage[]): Promise<StepPlan> {
    const step = firstIndex + stepNumber
    plan = await input.plan(step, carried).catch((error) => {
      fault ??= error
      throw error
    })
    const offered = new Map([...tools].filter(([name]) => plan?.activeTools.includes(name)))
    live = createLiveGeneration({ step, tools: offered, writer, events })
    stepStartedAt = Date.now()
    return plan
  }

  async function execute(name: string, toolInput: unknown, modelCallId: string): Promise<unknown> {
    const tool = tools.get(name)
    if (tool === undefined || live === null || fault !== null) throw broken.signal.reason
    const callId = live.callIdOf(modelCallId)
    try {
      const { input: own, state } = takePlacement(tool, toolInput as Json)
      const output = await runner.execute(tool, callId, own, state)
      if (output !== WAITING) return output
      waiting.push(callId)
      return { status: 'waiting' }
    } catch (error) {
      fault ??= error
      broken.abort(error)
      throw error
    }
  }

  /** That a generation made these calls, of which some failed already; and the end of one that it began and did not make. */
  async function tellOf(calls: NewToolCall[], begun: string | null, finishReason: string): Promise<void> {
    if (begun !== null && calls.every(({ id }) => id !== begun))
      await writer.close({ toolCallId: begun, status: 'CANCELED', output: null, error: null })
    for (const { id, modelCallId, status, output, error } of calls) {
      events.emit({ type: 'RunToolCalled', toolCallId: id })
      if (status !== 'FAILED') continue
      failed.set(modelCallId, output)
      const shownAs = BROKEN_OFF.has(finishReason) ? 'CANCELED' : status
      await writer.close({ toolCallId: id, status: shownAs, output, error })
      events.emit({ type: 'RunToolReturned', toolCallId: id })
    }
  }

  const sdkTools: ToolSet = Object.fromEntries(
    [...tools.values()].map(({ name, description, inputSchema }) => [
      name,
      sdkTool({
        description,
        inputSchema: jsonSchema(inputSchema as Parameters<typeof jsonSchema>[0]),
        execute: (toolInput: unknown, { toolCallId }) => execute(name, toolInput, toolCallId),
      }),
    ]),
  )

  return {
    broken,
    sdkTools,
    prepare,
    isOver: ({ steps }: { steps: StepResult<ToolSet>[] }) =>
      waiting.length > 0 ||
      input.isDone(steps) ||
      (input.tokenBudget !== null && spentTokens(spent) > input.tokenBudget),

    async stepSettings(stepNumber: number, carried: ModelMessage[], prepared: StepPlan | null) {
      const { instructions, messages, model, activeTools, toolChoice } =
        prepared ?? (await prepare(stepNumber, answeredAsJournaled(carried, failed)))
      return {
        instructions,
        messages,
        activeTools,
        toolChoice,
        model: tapModel(model.model, (part) => live?.see(part)),
      }
    },

    generated: ({ content, usage, finishReason, performance }: LanguageModelCallEndEvent) =>
      guarded(async () => {
        if (plan === null || live === null) return
        const calls = callsOf(content, tools, live)
        const sent = plan
        const counted = usageOf(
          usage,
          () => [sent.instructions, sent.messages],
          () => content,
        )
        spent.push(counted)
        live.end()
        closing = { text: textOf(content), finishReason, calls: calls.length }
        const kept = previous?.lasting ?? input.recorded
        await journal.generated(
          claim,
          {
            index: firstIndex + spent.length - stepsBefore.length - 1,
            model: sent.model.name,
            instructions: previous?.instructions === sent.instructions ? null : sent.instructions,
            messagesKept: kept,
            messagesAdded: sent.messages.slice(kept),
            activeTools: sent.activeTools,
            assistant: assistantMessage(content),
            finishReason,
            usage: counted,
            msToFirstChunk:
              performance.timeToFirstOutputMs === undefined ? null : Math.round(performance.timeToFirstOutputMs),
            startedAt: new Date(stepStartedAt),
            durationMs: Date.now() - stepStartedAt,
          },
          calls,
        )
        previous = { instructions: sent.instructions, lasting: sent.lasting }
        await tellOf(calls, live.begunCall(), finishReason)
      }),

    stepEnded: (step: StepResult<ToolSet>) =>
      guarded(async () => {
        if (fault !== null) return
        const index = firstIndex + step.stepNumber
        const usage = spent.at(-1)
        if (usage !== undefined) {
          const total = usage.inputTokens + usage.outputTokens
          events.emit({
            type: 'RunStepFinished',
            step: index,
            usage: { estimated: false, ...usage, totalTokens: total },
          })
        }
      }),

    /** What the SDK reports is the model's, unless it is the echo of a fault that broke the loop off. */
    failed(error: unknown) {
      fault ??= new ModelFailure(error)
    },

    /** What a generation that never ended has cost, if one was under way. */
    unfinished(): Usage | null {
      return plan === null || live === null ? null : live.estimate([plan.instructions, plan.messages])
    },

    end(): LoopEnd {
      if (input.signal.aborted) return { type: 'aborted' }
      if (fault !== null) throw fault
      if (waiting.length > 0) return { type: 'waiting', callIds: waiting }
      return closingOf(closing)
    },
  }
}

/** A generation that ends so did not write its last call to the end: the run fails, and nobody is told of a mistake. */
const BROKEN_OFF = new Set(['length', 'error', 'interrupted', 'content-filter'])

function textOf(content: ReadonlyArray<{ type: string }>): string {
  return content.flatMap((part) => (part.type === 'text' ? [(part as { text?: string }).text ?? ''] : [])).join('')
}

function failedWith(error: string, blame: Blame = 'unclear'): LoopEnd {
  return { type: 'failed', error, blame }
}

function closingOf(closing: { text: string; finishReason: string; calls: number } | null): LoopEnd {
  if (closing === null) return failedWith('The model sent nothing.')
  const { text, finishReason, calls } = closing
  if (finishReason === 'content-filter') return failedWith("The provider's content filter stopped the model.", 'prompt')
  if (finishReason === 'interrupted') return failedWith('The model broke off in the middle of its answer.')
  if (finishReason === 'error') return failedWith('The model ended with an error.')
  if (finishReason === 'length' && calls > 0) {
    return failedWith('The model reached its output limit in the middle of a tool call.')
  }
  return { type: 'finished', text: text.trim() === '' ? null : text.trim() }
}
