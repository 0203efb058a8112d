import {
  isStepCount,
  jsonSchema,
  type LanguageModel,
  type LanguageModelCallEndEvent,
  type ModelMessage,
  tool as sdkTool,
  streamText,
  type ToolSet,
} from 'ai'
import { sleep } from '../lib/async.ts'
import { wishing } from '../models/call-wishes.ts'
import { messagesOfStep } from '../runs/conversation.ts'
import type { Generation, Journal, JournaledStep } from '../runs/journal.ts'
import type { Claim } from '../runs/lifecycle.ts'
import type { RunEvents } from '../runs/run-events.ts'
import type { NewToolCall } from '../runs/tool-calls.ts'
import type { SpaceWriter } from '../speech/space-writer.ts'
import type { Tool } from '../tools/tool.ts'
import { assistantMessage, callsOf } from './generated-content.ts'
import { createLiveGeneration, type LiveGeneration } from './live-generation.ts'
import { ModelFailure } from './model-error.ts'
import { estimatedUsage, usageOf } from './token-usage.ts'

/** What a step is sent, decided right before it. */
export interface StepPlan {
  instructions: string
  /** The whole list that the model gets: what the step before was sent and what it added, then what is new. */
  messages: ModelMessage[]
  /** How many of them, the last, are new with this step. */
  added: number
  /** By name. */
  model: string
  activeTools: string[]
  toolChoice: 'auto' | 'required' | 'none'
}

/** The models behind their names. */
export interface Models {
  /** @throws where the name cannot be used any more */
  resolve(name: string): Promise<LanguageModel>
  /** A provider's text without keys. */
  redact(text: string): string
}

export interface GenerationParts {
  claim: Claim
  tools: Map<string, Tool>
  models: Models
  signal: AbortSignal
  /** How long a model may send nothing before it has failed. */
  silenceMs: number
  journal: Journal
  writer: SpaceWriter
  events: RunEvents
}

/** What came of a generation. */
export type Generated =
  /** It is in the journal; its calls are left to whoever carries the journal on. */
  { type: 'journaled'; step: JournaledStep } | { type: 'failed'; failure: ModelFailure } | { type: 'aborted' }

/** Attempts beyond the first, where a stream has broken off: before one begins, the SDK tries again by itself. */
const MOST_RETRIES = 2
const FIRST_PAUSE_MS = 500

/**
 * One generation, and its place in the journal. In order: the model is asked, and what it writes is shown live; a stream
 * that breaks off is asked for again, and what it had begun in a space stays INTERRUPTED; what came is journaled; the calls
 * that failed as they were made are told of.
 */
export async function generate(parts: GenerationParts, steps: JournaledStep[], plan: StepPlan): Promise<Generated> {
  for (let retries = 0; ; retries++) {
    const made = await attempt(parts, steps.length, plan)
    const { live, end, failure, startedAt } = made
    const mayRecover = retries < MOST_RETRIES && isRecoverable(made)
    if (end !== null && !mayRecover) {
      const calls = callsOf(end.content, parts.tools, live)
      const step = await parts.journal.generated(parts.claim, generationOf(steps, plan, end, startedAt), calls)
      await tellOf(parts, calls, live.begunCall(), end.finishReason)
      return failure === null || parts.signal.aborted ? { type: 'journaled', step } : { type: 'failed', failure }
    }
    if (end !== null || live.received() !== '') {
      const sent = [plan.instructions, plan.messages]
      const cost = end === null ? estimatedUsage(sent, live.received()) : usageOf(end.usage, () => sent, live.received)
      await parts.journal.abandoned(parts.claim, cost)
    }
    if (parts.signal.aborted) return { type: 'aborted' }
    if (!mayRecover) return { type: 'failed', failure: failure ?? nothingSent() }
    await interrupt(parts.writer, live.begunCall())
    await sleep(FIRST_PAUSE_MS * 2 ** retries, parts.signal)
  }
}

interface Attempt {
  live: LiveGeneration
  /** Null: it did not come to an end. */
  end: LanguageModelCallEndEvent | null
  failure: ModelFailure | null
  /** It was given up because nothing came any more. */
  isSilent: boolean
  startedAt: Date
}

/** The one `streamText` call, of a model that is there. */
async function attempt(parts: GenerationParts, step: number, plan: StepPlan): Promise<Attempt> {
  const { tools, models, signal, silenceMs, writer, events } = parts
  const offered = new Map([...tools].filter(([name]) => plan.activeTools.includes(name)))
  const came: Pick<Attempt, 'end' | 'failure'> = { end: null, failure: null }
  const fail = (error: unknown) => {
    came.failure ??= new ModelFailure(error, { redact: models.redact })
  }
  const startedAt = new Date()
  let silence: ReturnType<typeof createSilenceLimit> | null = null
  const live = createLiveGeneration({ step, tools: offered, writer, events, onPart: () => silence?.broken() })
  const model = await models.resolve(plan.model).catch((error) => {
    came.failure = new ModelFailure(error, { blame: 'provider' })
  })
  if (model === undefined) return { live, startedAt, isSilent: false, ...came }
  silence = createSilenceLimit(silenceMs)
  const result = streamText({
    model: live.watch(model),
    instructions: plan.instructions,
    messages: plan.messages,
    tools: described(tools),
    activeTools: plan.activeTools,
    toolChoice: plan.toolChoice,
    stopWhen: isStepCount(1),
    abortSignal: AbortSignal.any([signal, silence.signal]),
    maxRetries: 2,
    providerOptions: wishing({ cacheKey: parts.claim.run.agentId }),
    onLanguageModelCallEnd: (event) => {
      came.end = event
    },
    onError: ({ error }) => fail(error),
  })
  await result.consumeStream({ onError: fail })
  silence.end()
  const isSilent = silence.signal.aborted
  if (isSilent) came.failure = new ModelFailure(silence.signal.reason, { blame: 'provider' })
  return { live, startedAt, isSilent, ...came }
}

/** To the SDK the tools are only described: their calls are carried out from the journal. */
function described(tools: Map<string, Tool>): ToolSet {
  return Object.fromEntries(
    [...tools.values()].map(({ name, description, inputSchema }) => [
      name,
      sdkTool({ description, inputSchema: jsonSchema(inputSchema as Parameters<typeof jsonSchema>[0]) }),
    ]),
  )
}

/** Aborts when nothing has come for so long, from the request on: the SDK's own limits begin with the response. */
function createSilenceLimit(limitMs: number) {
  const controller = new AbortController()
  const timer = setTimeout(
    () => controller.abort(new Error(`The model sent nothing for ${Math.round(limitMs / 1000)} s.`)),
    limitMs,
  )
  return { signal: controller.signal, broken: () => void timer.refresh(), end: () => clearTimeout(timer) }
}

/** Whether asking once more may help: the stream broke off after it had begun, or fell silent, and that was not said to be for good. */
function isRecoverable({ end, failure, live, isSilent }: Attempt): boolean {
  const cause = failure?.cause as { isRetryable?: boolean } | undefined
  if (cause?.isRetryable === false) return false
  return end === null ? live.hasBegun() || isSilent : ['error', 'interrupted'].includes(end.finishReason)
}

function nothingSent(): ModelFailure {
  return new ModelFailure(new Error('The model sent nothing.'), { blame: 'unclear' })
}

/** A generation for the journal: of what was sent only what the steps before do not say. */
function generationOf(
  steps: JournaledStep[],
  plan: StepPlan,
  end: LanguageModelCallEndEvent,
  startedAt: Date,
): Generation {
  const { instructions, messages, added, activeTools, model } = plan
  const last = steps.at(-1)
  const before = steps.findLast(({ step }) => step.instructions !== null)?.step.instructions
  const { timeToFirstOutputMs } = end.performance
  return {
    index: steps.length,
    model,
    instructions: before === instructions ? null : instructions,
    messagesKept: messages.length - added - (last === undefined ? 0 : messagesOfStep(last).length),
    messagesAdded: messages.slice(messages.length - added),
    activeTools,
    assistant: assistantMessage(end.content),
    finishReason: end.finishReason,
    usage: usageOf(
      end.usage,
      () => [instructions, messages],
      () => end.content,
    ),
    msToFirstChunk: timeToFirstOutputMs === undefined ? null : Math.round(timeToFirstOutputMs),
    startedAt,
    durationMs: Date.now() - startedAt.getTime(),
  }
}

/** What a call showed that the model began and did not make. */
async function interrupt(writer: SpaceWriter, begun: string | null): Promise<void> {
  if (begun !== null) await writer.close({ toolCallId: begun, status: 'CANCELED', output: null, error: null })
}

/** A generation that ends so did not write its last call to the end: the run fails, and nobody is told of a mistake. */
export const BROKEN_OFF: ReadonlySet<string> = new Set(['length', 'error', 'interrupted', 'content-filter'])

/** That a generation made these calls, of which some failed already; and the end of one that it began and did not make. */
async function tellOf(
  { writer, events }: GenerationParts,
  calls: NewToolCall[],
  begun: string | null,
  finishReason: string,
): Promise<void> {
  if (calls.every(({ id }) => id !== begun)) await interrupt(writer, begun)
  for (const { id, status, output, error } of calls) {
    events.emit({ type: 'RunToolCalled', toolCallId: id })
    if (status !== 'FAILED') continue
    await writer.close({ toolCallId: id, status: BROKEN_OFF.has(finishReason) ? 'CANCELED' : status, output, error })
    events.emit({ type: 'RunToolReturned', toolCallId: id })
  }
}
