import type { LanguageModelCallEndEvent } from 'ai'
import { sleep } from '../lib/async.ts'
import type { StepPlan } from '../minds/mind.ts'
import { ModelFailure } from '../minds/model-error.ts'
import { estimatedUsage, usageOf } from '../minds/token-usage.ts'
import { messagesOfStep } from '../runs/conversation.ts'
import type { FailedModel, Generation, JournaledStep, KeptStep } from '../runs/journal.ts'
import type { NewToolCall } from '../runs/tool-calls.ts'
import type { SpaceWriter } from '../speech/space-writer.ts'
import { requesterOf } from '../tools/custom/schema-checks.ts'
import { heardInPart } from '../tools/tool.ts'
import { type Attempt, attempt, type GenerationParts } from './attempt.ts'
import { assistantMessage, callsOf } from './generated-content.ts'

/** What came of a generation. */
export type Generated =
  /** It is in the journal; its calls are left to whoever carries the journal on. */
  | { type: 'journaled'; step: KeptStep }
  | { type: 'failed'; failure: ModelFailure }
  /** What was asked for in vain has spent a budget. */
  | { type: 'over-budget'; error: string }
  | { type: 'aborted' }

/** Attempts of one model beyond the first, where a stream has broken off: before one begins, the SDK tries again by itself. */
const MOST_RETRIES = 2
const FIRST_PAUSE_MS = 500

/**
 * One generation, and its place in the journal. In order: the first of the models is asked whose provider does not rest, and
 * what it writes is shown live; where it fails before anything was shown, the next one is asked at once. Of the last one, and of
 * one that has shown something, a stream that breaks off is asked for again, and what it had begun in a space stays INTERRUPTED.
 * What came is journaled; the calls that failed as they were made are told of.
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
    if (parts.signal.aborted) return { type: 'aborted' }
  }
  throw new Error('the step plan names no model')
}

/** The models in the order in which they are asked: those whose providers rest come last, and the first of them is passed over. */
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
      error: `Its provider failed too often and is skipped until ${resting.get(model)?.toISOString()}.`,
    })),
  }
}

interface Question {
  steps: JournaledStep[]
  plan: StepPlan
  name: string
  /** Those that were asked or passed over before. */
  failed: FailedModel[]
  /** There is none left to ask instead. */
  isLast: boolean
}

/** Asks one model, again where that may help. */
async function ask(parts: GenerationParts, question: Question): Promise<Generated & { hasShown?: boolean }> {
  const { steps, plan, name, isLast } = question
  let hasShown = false
  for (let retries = 0; ; retries++) {
    const made = await attempt(parts, steps.length, plan, { name, maxRetries: isLast || hasShown ? MOST_RETRIES : 0 })
    const isStopped = parts.signal.aborted
    hasShown ||= made.live.hasShown()
    if (!isStopped && isItsProvidersFault(made)) await parts.models.failed(name)
    const next = nextOf(made, retries, isLast || hasShown)
    if (next === 'keep') {
      const step = await keep(parts, question, made)
      const { failure } = made
      return failure === null || parts.signal.aborted
        ? { type: 'journaled', step }
        : { type: 'failed', failure, hasShown }
    }
    await account(parts, plan, made, name)
    const end = await endAfter(parts, question, made, { isStopped, isOver: next === 'give up' })
    if (end !== null) return { ...end, hasShown }
    await interrupt(parts.writer, made.live.begunCall())
    await sleep(FIRST_PAUSE_MS * 2 ** retries, parts.signal)
  }
}

/** Why this model is not asked once more, after an attempt that led to nothing; null where it is. */
async function endAfter(
  parts: GenerationParts,
  { plan, steps }: Question,
  made: Attempt,
  { isStopped, isOver }: { isStopped: boolean; isOver: boolean },
): Promise<Exclude<Generated, { type: 'journaled' }> | null> {
  if (isStopped || parts.signal.aborted) return { type: 'aborted' }
  if (isOver) return { type: 'failed', failure: failureOf(made) }
  const over = await parts.reserve(plan, steps)
  if (over !== null) return { type: 'over-budget', error: over }
  return parts.signal.aborted ? { type: 'aborted' } : null
}

/** What broke off is kept where no other model is asked: it says what the run fails of. */
function nextOf(made: Attempt, retries: number, insists: boolean): 'keep' | 'again' | 'give up' {
  if (insists && retries < MOST_RETRIES && isRecoverable(made)) return 'again'
  return made.end !== null && (insists || !isBrokenOff(made)) ? 'keep' : 'give up'
}

async function keep(
  parts: GenerationParts,
  question: Question,
  { live, end, startedAt, failure }: Attempt,
): Promise<KeptStep> {
  if (end === null) throw new Error('a generation without an end cannot be journaled')
  const requester = requesterOf(parts.claim.run)
  const calls = await callsOf(end.content, { tools: parts.tools, live, requester })
  for (const call of calls)
    if (call.status === 'FAILED' && (await parts.writer.isHeard(call.id))) call.output = heardInPart(call.output)
  const isAll = failure === null && live.begunCall() === null
  const generation = generationOf(question, end, startedAt)
  const step = await parts.journal.generated(parts.claim, generation, calls, isAll ? parts.completing : undefined)
  await tellOf(parts, calls, live.begunCall(), end.finishReason)
  return step
}

/** The tokens of an attempt that leads to nothing count. */
async function account(parts: GenerationParts, plan: StepPlan, { end, live }: Attempt, name: string): Promise<void> {
  if (end === null && live.received() === '') return
  const sent = [plan.instructions, plan.messages]
  const cost = end === null ? estimatedUsage(sent, live.received()) : usageOf(end.usage, () => sent, live.received)
  await parts.journal.abandoned(parts.claim, cost, name)
}

/** Whether the answer is none, by the provider's fault. */
function isBrokenOff({ end }: Attempt): boolean {
  return end === null || ['error', 'interrupted'].includes(end.finishReason)
}

/** Whether asking once more may help: the stream broke off after it had begun, or fell silent, and that was not said to be for good. */
function isRecoverable(made: Attempt): boolean {
  const cause = made.failure?.cause as { isRetryable?: boolean } | undefined
  if (cause?.isRetryable === false || !isBrokenOff(made)) return false
  return made.end !== null || made.live.hasBegun() || made.isSilent
}

/** A prompt that is refused says nothing about its provider. */
function isItsProvidersFault(made: Attempt): boolean {
  return isBrokenOff(made) && made.failure?.blame !== 'prompt'
}

function failureOf({ failure, end }: Attempt): ModelFailure {
  const what = end === null ? 'The model sent nothing.' : 'The model broke off in the middle of its answer.'
  return failure ?? new ModelFailure(new Error(what), { blame: 'unclear' })
}

/** A generation for the journal: of what was sent only what the steps before do not say. */
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

/** What a call showed that the model began and did not make. */
async function interrupt(writer: SpaceWriter, begun: string | null): Promise<void> {
  if (begun !== null) await writer.close({ toolCallId: begun, status: 'CANCELED', output: null, error: null })
}

/** A generation that ends so did not write its last call to the end: the run fails, and nobody is told of a mistake. */
const BROKEN_OFF: ReadonlySet<string> = new Set(['length', 'error', 'interrupted', 'content-filter'])

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
