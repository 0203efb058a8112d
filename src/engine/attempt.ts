import {
  jsonSchema,
  type LanguageModel,
  type LanguageModelCallEndEvent,
  tool as sdkTool,
  experimental_streamLanguageModelCall as streamLanguageModelCall,
  type ToolSet,
} from 'ai'
import { logWarnings, prepareRetries } from 'ai/internal'
import type { ModelSettings } from '../agents/model-settings.ts'
import type { Prisma } from '../generated/prisma/client.ts'
import { unlessAborted } from '../lib/async.ts'
import type { StepPlan } from '../minds/mind.ts'
import { ModelFailure } from '../minds/model-error.ts'
import { wishing } from '../models/call-wishes.ts'
import type { Journal, JournaledStep } from '../runs/journal.ts'
import type { Claim } from '../runs/lifecycle.ts'
import { messagesFor } from '../runs/model-messages.ts'
import type { RunEvents } from '../runs/run-events.ts'
import type { SpaceWriter } from '../speech/space-writer.ts'
import type { Tool } from '../tools/tool.ts'
import { createLiveGeneration, type LiveGeneration } from './live-generation.ts'

/** The models behind their names. */
export interface Models {
  /** @throws where the name cannot be used any more */
  resolve(name: string): Promise<LanguageModel>
  /** A provider's text without keys. */
  redact(text: string): string
  /** A model's provider has failed. */
  failed(name: string): Promise<void>
  /** Those of the models whose providers rest now, with until when. */
  resting(names: readonly string[]): Promise<Map<string, Date>>
}

export interface GenerationParts {
  /** Reserves what a generation may use, or waits for that. @returns why no model is called: a budget is spent by now. Null: none is. */
  reserve(plan: StepPlan, steps: readonly JournaledStep[]): Promise<string | null>
  claim: Claim
  tools: Map<string, Tool>
  models: Models
  signal: AbortSignal
  /** How long a model may send nothing before it has failed. */
  silenceMs: number
  journal: Journal
  /** Whether the run ends with a step as the model has made it, and how that is written. */
  completing(step: JournaledStep): Prisma.Sql | null
  writer: SpaceWriter
  events: RunEvents
}

/** What came of asking a model once. */
export interface Attempt {
  live: LiveGeneration
  /** Null: it did not come to an end. */
  end: LanguageModelCallEndEvent | null
  failure: ModelFailure | null
  /** It was given up because nothing came any more. */
  isSilent: boolean
  startedAt: Date
}

/**
 * Asks a model, once: the one call of the SDK's for one generation, without the loop, the results and the telemetry that its `streamText`
 * puts around that. Before an answer begins, it is tried again `maxRetries` times.
 */
export async function attempt(
  parts: GenerationParts,
  step: number,
  plan: StepPlan,
  { name, maxRetries }: { name: string; maxRetries: number },
): Promise<Attempt> {
  const { tools, models, signal, silenceMs, writer, events } = parts
  const offered = new Map([...tools].filter(([tool]) => plan.activeTools.includes(tool)))
  const came: Pick<Attempt, 'end' | 'failure'> = { end: null, failure: null }
  const fail = (error: unknown) => {
    came.failure ??= new ModelFailure(error, { redact: models.redact })
  }
  const startedAt = new Date()
  let silence: ReturnType<typeof createSilenceLimit> | null = null
  const toolNames = new Set(tools.keys())
  const live = createLiveGeneration({
    step,
    tools: offered,
    toolNames,
    writer,
    events,
    onPart: () => silence?.broken(),
  })
  const model = await models.resolve(name).catch((error) => {
    came.failure = new ModelFailure(error, { blame: 'provider' })
  })
  if (model === undefined) return { live, startedAt, isSilent: false, ...came }
  silence = createSilenceLimit(silenceMs)
  const abortSignal = AbortSignal.any([signal, silence.signal])
  const call: ModelCall = {
    model: live.watch(model),
    instructions: plan.instructions,
    messages: messagesFor(name, plan.messages),
    tools: described(offered),
    toolChoice: plan.toolChoice,
    abortSignal,
    ...settingsOf(plan.modelSettings, parts.claim.run.agentId),
    onLanguageModelCallEnd: (event) => {
      came.end = event
    },
  }
  await follow(call, { maxRetries, fail }).catch((error) => {
    if (!abortSignal.aborted) fail(error)
  })
  silence.end()
  const isSilent = silence.signal.aborted
  if (isSilent) came.failure = new ModelFailure(silence.signal.reason, { blame: 'provider' })
  return { live, startedAt, isSilent, ...came }
}

type ModelCall = Parameters<typeof streamLanguageModelCall>[0] & { model: LanguageModel; abortSignal: AbortSignal }

/** Makes the call, and takes what comes to its end; each error that comes in the stream goes to `fail`. @throws any other, or the signal's reason */
async function follow(
  call: ModelCall,
  { maxRetries, fail }: { maxRetries: number; fail: (error: unknown) => void },
): Promise<void> {
  const { model, abortSignal } = call
  const { retry } = prepareRetries({ maxRetries, abortSignal })
  const begun = retry(() => streamLanguageModelCall(call))
  const { stream } = await unlessAborted(abortSignal, Promise.resolve(begun))
  const reader = stream.getReader()
  // A provider that does not look at the signal is left to itself.
  const leave = () => void reader.cancel(abortSignal.reason).catch(() => {})
  abortSignal.addEventListener('abort', leave, { once: true })
  try {
    for (;;) {
      const { done, value: part } = await reader.read()
      if (done) return
      if (part.type === 'error') fail(part.error)
      else if (part.type === 'model-call-start' && typeof model !== 'string')
        logWarnings({ warnings: part.warnings, provider: model.provider, model: model.modelId })
    }
  } finally {
    abortSignal.removeEventListener('abort', leave)
  }
}

/** An agent's settings in the SDK's terms. What an agent is sent begins alike each time: it is cached by its id. */
function settingsOf({ reasoningEffort, serviceTier, ...sampling }: ModelSettings, agentId: string) {
  return {
    ...sampling,
    ...(reasoningEffort === undefined ? {} : { reasoning: reasoningEffort }),
    providerOptions: wishing({ cacheKey: agentId, ...(serviceTier === undefined ? {} : { serviceTier }) }),
  }
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
