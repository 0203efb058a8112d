import {
  APICallError,
  jsonSchema,
  type LanguageModel,
  type LanguageModelCallEndEvent,
  tool as sdkTool,
  experimental_streamLanguageModelCall as streamLanguageModelCall,
  type ToolSet,
} from 'ai'
import { logWarnings, prepareRetries } from 'ai/internal'
import type { ModelSettings } from '../agents/model-settings.ts'
import type { StepPlan } from '../context/mind.ts'
import type { Prisma } from '../generated/prisma/client.ts'
import { unlessAborted } from '../lib/async.ts'
import { wishing } from '../models/call-wishes.ts'
import { readProviderError } from '../models/provider-error.ts'
import type { SpaceWriter } from '../posting/space-writer.ts'
import type { Journal, JournaledStep } from '../runs/journal.ts'
import { messagesFor } from '../runs/model-messages.ts'
import type { RunEvents } from '../runs/run-events.ts'
import type { RunExecution } from '../tools/run-context.ts'
import type { Tool } from '../tools/tool.ts'
import { createLiveGeneration, type Draft, type LiveGeneration } from './live-generation.ts'
import { ModelFailure } from './model-failure.ts'
import type { Pictures } from './pictures.ts'

/** The configured models, by name. */
export interface Models {
  /** @throws Error if there is no longer a usable model with this name */
  resolve(name: string): Promise<LanguageModel>
  /** Whether the model accepts files of this type in tool results. */
  takesFile(name: string, mediaType: string): boolean
  /** Removes API keys from text that a provider returned. */
  redact(text: string): string
  /** Records that the model's provider has failed. */
  failed(name: string): Promise<void>
  /** Returns the models whose provider is in cooldown, with the time at which its cooldown ends. */
  resting(names: readonly string[]): Promise<Map<string, Date>>
}

export interface GenerationParts {
  /**
   * Reserves budget for the next generation, or waits until there is room.
   * @returns a text that says which budget is exhausted; null if a model may be called
   */
  reserve(plan: StepPlan, steps: readonly JournaledStep[]): Promise<string | null>
  run: RunExecution
  tools: Map<string, Tool>
  models: Models
  pictures: Pictures
  /** How long a model may stay silent before the attempt fails. */
  silenceMs: number
  journal: Journal
  /** Returns the SQL that completes the run together with this step; null if this is not the last step. */
  completing(step: JournaledStep): Prisma.Sql | null
  writer: SpaceWriter
  events: RunEvents
}

/** The outcome of one model call. */
export interface Attempt {
  live: LiveGeneration
  /** The event at the end of the response; null if the response never finished. */
  end: LanguageModelCallEndEvent | null
  failure: ModelFailure | null
  /** Whether the attempt was aborted because the model sent nothing for `silenceMs`. */
  isSilent: boolean
  startedAt: Date
}

/**
 * Calls a model once, with the SDK's function for a single generation. Unlike `streamText`, this function has no loop,
 * tool results or telemetry. Until the response begins, the call is retried up to `maxRetries` times.
 */
export async function attempt(
  parts: GenerationParts,
  step: number,
  plan: StepPlan,
  {
    name,
    maxRetries,
    before,
    isBlind = false,
  }: { name: string; maxRetries: number; before: Draft | null; isBlind?: boolean },
): Promise<Attempt> {
  const { run, tools, models, silenceMs, writer, events } = parts
  const offered = new Map([...tools].filter(([tool]) => plan.activeTools.includes(tool)))
  const came: Pick<Attempt, 'end' | 'failure'> = { end: null, failure: null }
  const fail = (error: unknown) => {
    came.failure ??= new ModelFailure(error, { redact: models.redact, offered: [...offered.keys()] })
  }
  const startedAt = new Date()
  let silence: ReturnType<typeof createSilenceLimit> | null = null
  const toolNames = new Set(tools.keys())
  const live = createLiveGeneration({
    step,
    tools: offered,
    toolNames,
    before,
    writer,
    events,
    onPart: () => silence?.broken(),
  })
  const model = await models.resolve(name).catch((error) => {
    came.failure = new ModelFailure(error, { blame: 'provider' })
  })
  if (model === undefined) return { live, startedAt, isSilent: false, ...came }
  const messages = messagesFor(name, plan.messages, (mediaType) => models.takesFile(name, mediaType))
  const shown = await parts.pictures.showIn(name, messages, { isBlind })
  silence = createSilenceLimit(silenceMs)
  const abortSignal = AbortSignal.any([run.signal, silence.signal])
  const call: ModelCall = {
    model: live.watch(model),
    instructions: plan.instructions,
    messages: shown.messages,
    tools: described(offered),
    toolChoice: plan.toolChoice,
    abortSignal,
    ...settingsOf(plan.modelSettings, run.context.run.agentId),
    onLanguageModelCallEnd: (event) => {
      came.end = event
    },
  }
  await follow(call, { maxRetries, fail, silence }).catch((error) => {
    if (!abortSignal.aborted) fail(error)
  })
  silence.end()
  await live.settled()
  if (shown.hasPictures && came.failure?.blame === 'prompt' && !abortSignal.aborted) {
    // Providers do not report which models accept images. A model does not accept images if it refuses this prompt with
    // them and accepts it without them.
    const without = await attempt(parts, step, plan, { name, maxRetries, before, isBlind: true })
    if (without.end !== null) parts.pictures.refusedBy(name)
    return without
  }
  const isSilent = silence.signal.aborted
  if (isSilent) came.failure = new ModelFailure(silence.signal.reason, { blame: 'provider' })
  return { live, startedAt, isSilent, ...came }
}

type ModelCall = Parameters<typeof streamLanguageModelCall>[0] & { model: LanguageModel; abortSignal: AbortSignal }

/**
 * Calls the model and reads its stream to the end. Passes errors from the stream to `fail`.
 * @throws any other error, or the signal's reason
 */
async function follow(
  call: ModelCall,
  {
    maxRetries,
    fail,
    silence,
  }: { maxRetries: number; fail: (error: unknown) => void; silence: ReturnType<typeof createSilenceLimit> },
): Promise<void> {
  const { model, abortSignal } = call
  const { retry } = prepareRetries({ maxRetries, abortSignal })
  // Silence is only measured during requests, not in the pauses between retries.
  const begun = retry(() => {
    silence.begin()
    return streamLanguageModelCall(call).catch((error) => {
      silence.end()
      rethrowFinal(error)
    })
  })
  const { stream } = await unlessAborted(abortSignal, Promise.resolve(begun))
  const reader = stream.getReader()
  // If the provider ignores the signal, its request continues. This line only cancels the stream.
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

/**
 * Rethrows an error. Marks it as final if the provider reports that a retry cannot help, because the SDK decides about
 * retries by the HTTP status alone.
 * @throws the error
 */
function rethrowFinal(error: unknown): never {
  if (!APICallError.isInstance(error) || !error.isRetryable || readProviderError(error).isRetryable) throw error
  const { message, url, requestBodyValues, statusCode, responseHeaders, responseBody } = error
  throw new APICallError({
    message,
    url,
    requestBodyValues,
    isRetryable: false,
    cause: error,
    ...(statusCode === undefined ? {} : { statusCode }),
    ...(responseHeaders === undefined ? {} : { responseHeaders }),
    ...(responseBody === undefined ? {} : { responseBody }),
  })
}

/**
 * Converts an agent's settings to the SDK's. The cache key is the agent's id, because the agent's prompts share a
 * prefix.
 */
function settingsOf({ reasoningEffort, serviceTier, ...sampling }: ModelSettings, agentId: string) {
  return {
    ...sampling,
    ...(reasoningEffort === undefined ? {} : { reasoning: reasoningEffort }),
    providerOptions: wishing({ cacheKey: agentId, ...(serviceTier === undefined ? {} : { serviceTier }) }),
  }
}

/** Describes the tools to the SDK without `execute`, because the engine executes the calls from the journal. */
function described(tools: Map<string, Tool>): ToolSet {
  return Object.fromEntries(
    [...tools.values()].map(({ name, description, inputSchema }) => [
      name,
      sdkTool({ description, inputSchema: jsonSchema(inputSchema as Parameters<typeof jsonSchema>[0]) }),
    ]),
  )
}

/**
 * Aborts when nothing arrives for `limitMs` after the request or after the last part. The SDK's own timeouts start only
 * when the response begins.
 */
function createSilenceLimit(limitMs: number) {
  const controller = new AbortController()
  let timer: NodeJS.Timeout | undefined
  const abort = () => controller.abort(new Error(`The model sent nothing for ${Math.round(limitMs / 1000)} s.`))
  const end = () => clearTimeout(timer)
  const begin = () => {
    end()
    timer = setTimeout(abort, limitMs)
  }
  begin()
  return { signal: controller.signal, begin, broken: () => void timer?.refresh(), end }
}
