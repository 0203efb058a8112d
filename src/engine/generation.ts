import type { LanguageModelCallEndEvent } from 'ai'
import type { StepPlan } from '../context/mind.ts'
import { estimatedUsage, usageOf } from '../context/token-usage.ts'
import { sleep } from '../lib/async.ts'
import type { SpaceWriter } from '../posting/space-writer.ts'
import { requesterOf } from '../rules/requester.ts'
import { messagesOfStep } from '../runs/conversation.ts'
import type { FailedModel, Generation, JournaledStep, KeptStep } from '../runs/journal.ts'
import type { NewToolCall } from '../stores/call-store.ts'
import { heardInPart } from '../tools/tool.ts'
import { type Attempt, attempt, type GenerationParts } from './attempt.ts'
import { assistantMessage, callsOf } from './generated-content.ts'
import type { Draft } from './live-generation.ts'
import { ModelFailure } from './model-failure.ts'

/** The outcome of a generation. */
export type Generated =
  /** The step is in the journal. The caller executes its calls. */
  | { type: 'journaled'; step: KeptStep }
  | { type: 'failed'; failure: ModelFailure; model: string }
  /** The failed attempts have exhausted a budget. */
  | { type: 'over-budget'; error: string }
  | { type: 'aborted' }

/**
 * How often a model is called again after its stream was cut off. Before the stream begins, the SDK retries on its own.
 */
const MOST_RETRIES = 2
const FIRST_PAUSE_MS = 500

/**
 * Makes one generation and journals it. Calls the first model whose provider is not in cooldown, and streams its output
 * to viewers. If this model fails before any output is shown, calls the next model at once. If output was already
 * shown, or no other model is left, a model that was cut off is called again, and continues the message that it began.
 * Publishes the calls that failed validation.
 */
export async function generate(parts: GenerationParts, steps: JournaledStep[], plan: StepPlan): Promise<Generated> {
  const { order, failed } = await orderOf(parts, plan)
  for (const [index, name] of order.entries()) {
    const isLast = index === order.length - 1
    const asked = await ask(parts, { steps, plan, name, failed, isLast })
    if (asked.type !== 'failed' || asked.hasShown || isLast) return asked
    failed.push({ model: name, error: asked.failure.message })
    const over = await parts.reserve(plan, steps)
    if (over !== null) return { type: 'over-budget', error: over }
    if (parts.run.signal.aborted) return { type: 'aborted' }
  }
  throw new Error('the step plan contains no model')
}

/**
 * Returns the models in call order, with models in cooldown last. If a model is skipped before the first available one,
 * it is recorded as failed.
 */
async function orderOf(
  { models }: GenerationParts,
  plan: StepPlan,
): Promise<{ order: string[]; failed: FailedModel[] }> {
  if (plan.models.length === 1) return { order: [...plan.models], failed: [] }
  const resting = await models.resting(plan.models)
  const isAwake = (name: string) => !resting.has(name)
  const firstAwake = plan.models.findIndex(isAwake)
  const passedOver = plan.models.slice(0, Math.max(0, firstAwake))
  return {
    order: [...plan.models.filter(isAwake), ...plan.models.filter((name) => !isAwake(name))],
    failed: passedOver.map((model) => ({
      model,
      error: `The provider failed too often and is skipped until ${resting.get(model)?.toISOString()}.`,
    })),
  }
}

interface Question {
  steps: JournaledStep[]
  plan: StepPlan
  name: string
  /** The models that have failed or were skipped. */
  failed: FailedModel[]
  /** Whether this is the last model to try. */
  isLast: boolean
}

/** Calls one model. Repeats the call after a failure that may be temporary. */
async function ask(parts: GenerationParts, question: Question): Promise<Generated & { hasShown?: boolean }> {
  const { steps, plan, name, isLast } = question
  let hasShown = false
  let before = draftBefore(parts)
  for (let retries = 0; ; retries++) {
    const maxRetries = isLast || hasShown ? MOST_RETRIES : 0
    const made: Attempt = await attempt(parts, steps.length, plan, { name, maxRetries, before })
    const isStopped = parts.run.signal.aborted
    hasShown ||= made.live.hasShown()
    if (!isStopped && isItsProvidersFault(made)) await parts.models.failed(name)
    const next = nextOf(made, retries, isLast || hasShown)
    if (next === 'keep') {
      const step = await keep(parts, question, made)
      const { failure } = made
      return failure === null || parts.run.signal.aborted
        ? { type: 'journaled', step }
        : { type: 'failed', failure, model: name, hasShown }
    }
    await account(parts, plan, made, name)
    const end = await endAfter(parts, question, made, { isStopped, isOver: next === 'give up' })
    if (end !== null) return { ...end, hasShown }
    before = made.live.draft()
    if (before === null) await interrupt(parts.writer, made.live.begunCall())
    await sleep(FIRST_PAUSE_MS * 2 ** retries, parts.run.signal)
  }
}

/**
 * Returns the message that an earlier attempt of the run has left unfinished. The first generation of this attempt
 * continues it.
 */
function draftBefore({ writer, tools }: GenerationParts): Draft | null {
  const callId = writer.continued()
  const toolName = [...tools.values()].find(({ presence }) => presence.type === 'speech')?.name
  return callId === null || toolName === undefined ? null : { callId, toolName, input: '' }
}

/** Returns the end of a generation after a failed attempt; null if the model will be called again. */
async function endAfter(
  parts: GenerationParts,
  { plan, steps, name }: Question,
  made: Attempt,
  { isStopped, isOver }: { isStopped: boolean; isOver: boolean },
): Promise<Exclude<Generated, { type: 'journaled' }> | null> {
  if (isStopped || parts.run.signal.aborted) return { type: 'aborted' }
  if (isOver) return { type: 'failed', failure: failureOf(made), model: name }
  const over = await parts.reserve(plan, steps)
  if (over !== null) return { type: 'over-budget', error: over }
  return parts.run.signal.aborted ? { type: 'aborted' } : null
}

/**
 * Decides what follows an attempt. An incomplete response is kept if no other model will be called, because it shows
 * why the run fails.
 */
function nextOf(made: Attempt, retries: number, insists: boolean): 'keep' | 'again' | 'give up' {
  if (insists && retries < MOST_RETRIES && isRecoverable(made)) return 'again'
  return made.end !== null && (insists || !isBrokenOff(made)) ? 'keep' : 'give up'
}

async function keep(
  parts: GenerationParts,
  question: Question,
  { live, end, startedAt, failure }: Attempt,
): Promise<KeptStep> {
  if (end === null) throw new Error('a generation without a finish part cannot be journaled')
  const requester = requesterOf(parts.run.context.run)
  const calls = await callsOf(end.content, { tools: parts.tools, live, requester })
  for (const call of calls)
    if (call.status === 'FAILED' && (await parts.writer.isHeard(call.id))) call.output = heardInPart(call.output)
  const isAll = failure === null && live.begunCall() === null
  const generation = generationOf(question, end, startedAt)
  const { run, journal, completing } = parts
  const step = await journal.generated(run.context, generation, calls, isAll ? completing : undefined)
  run.apply({ learned: { label: step.label } })
  await tellOf(parts, calls, live.begunCall(), end.finishReason)
  return step
}

/** Records the usage of a failed attempt to call a model. */
async function account(parts: GenerationParts, plan: StepPlan, { end, live }: Attempt, name: string): Promise<void> {
  if (end === null && live.received() === '') return
  const sent = [plan.instructions, plan.messages]
  const cost = end === null ? estimatedUsage(sent, live.received()) : usageOf(end.usage, () => sent, live.received)
  await parts.journal.abandoned(parts.run.context, cost, name)
}

/** Whether the provider's response ended early. */
function isBrokenOff({ end }: Attempt): boolean {
  return end === null || ['error', 'interrupted'].includes(end.finishReason)
}

/**
 * Whether a retry may help, because the stream was cut off after it had begun, or became silent, and the error is not
 * permanent.
 */
function isRecoverable(made: Attempt): boolean {
  if (made.failure?.isRetryable === false || !isBrokenOff(made)) return false
  return made.end !== null || made.live.hasBegun() || made.isSilent
}

/** Whether the provider caused the failure. A rejected prompt is not the provider's fault. */
function isItsProvidersFault(made: Attempt): boolean {
  return isBrokenOff(made) && made.failure?.blame !== 'prompt'
}

function failureOf({ failure, end }: Attempt): ModelFailure {
  const what = end === null ? 'The model sent nothing.' : "The model's stream ended in the middle of its answer."
  return failure ?? new ModelFailure(new Error(what), { blame: 'unclear' })
}

/** Returns the journal entry of a generation. It contains only those sent messages that no earlier step contains. */
function generationOf(
  { steps, plan, name, failed }: Question,
  end: LanguageModelCallEndEvent,
  startedAt: Date,
): Generation {
  const { instructions, messages, added, holdsResponse = false, activeTools, withheld } = plan
  const last = steps.at(-1)
  const between = last === undefined || holdsResponse ? 0 : messagesOfStep(last).length
  const before = steps.findLast(({ step }) => step.instructions !== null)?.step.instructions
  const { timeToFirstOutputMs } = end.performance
  return {
    index: steps.length,
    model: name,
    failedModels: [...failed],
    instructions: before === instructions ? null : instructions,
    messagesKept: messages.length - added - between,
    followsResponse: !holdsResponse,
    messagesAdded: messages.slice(messages.length - added),
    activeTools,
    withheld,
    assistant: assistantMessage(name, end.content),
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

/** Cancels a shown call that the model began but did not finish. */
async function interrupt(writer: SpaceWriter, begun: string | null): Promise<void> {
  if (begun !== null) await writer.close({ toolCallId: begun, status: 'CANCELED', output: null, error: null })
}

/**
 * The finish reasons after which the last call can be incomplete. The run then fails, and the call is shown as
 * CANCELED, not as FAILED.
 */
const BROKEN_OFF: ReadonlySet<string> = new Set(['length', 'error', 'interrupted', 'content-filter'])

/**
 * Publishes the calls of a generation, the results of calls that have already failed, and the end of a call that the
 * model began but did not finish.
 */
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
