import { maxToolCallsOf } from '../agents/agent-settings.ts'
import type { Recalling } from '../agents/recall.ts'
import type { Discretion } from '../confidence/discretion.ts'
import type { ModelPrices } from '../config.ts'
import type { Mind, MindInput, StepPlan } from '../minds/mind.ts'
import type { Blame, ModelFailure } from '../minds/model-error.ts'
import { createPersistentMind } from '../minds/persistent.ts'
import { originIn, type SceneAgent, type SceneLoader } from '../minds/scene.ts'
import { createStatelessMind } from '../minds/stateless.ts'
import { spentTokens } from '../minds/token-usage.ts'
import type { Platform } from '../platform/platform.ts'
import { isBeingCarriedOut } from '../runs/approval.ts'
import type { Approvals } from '../runs/approvals.ts'
import { closingWords } from '../runs/conversation.ts'
import { decisionsOn } from '../runs/decisions-told.ts'
import type { Journal, JournaledCall, JournaledStep } from '../runs/journal.ts'
import type { Claim, Completion, Lifecycle, RunEnding } from '../runs/lifecycle.ts'
import { createRunEvents } from '../runs/run-events.ts'
import type { ToolWaits } from '../runs/tool-waits.ts'
import type { RunPostingParts } from '../speech/run-posting.ts'
import type { SpaceWriter } from '../speech/space-writer.ts'
import { finishing, openWriter } from '../speech/writer.ts'
import { failureResult, type RequestedEnding, type RunInHand } from '../tools/tool.ts'
import type { Toolbox } from '../tools/toolbox.ts'
import type { GenerationParts, Models } from './attempt.ts'
import { generate } from './generation.ts'
import type { Observer } from './observation.ts'
import { retell, stepFinished } from './retelling.ts'
import { takeInHand } from './run-in-hand.ts'
import { affordable, estimatedSpending, reserveBudget } from './spending.ts'
import { type CallEnd, createToolRunner, type ToolRunner } from './tool-runner.ts'

export interface PerformParts {
  journal: Journal
  waits: ToolWaits
  approvals: Pick<Approvals, 'recheck'>
  discretion: Pick<Discretion, 'toLeave'>
  speech: RunPostingParts
  scenes: SceneLoader
  toolbox: Toolbox
  models: Models
  observer: Observer
  recalling: Recalling
  lifecycle: Pick<Lifecycle, 'completing'>
}

/** A claimed run and its binding to this process. */
export interface Performance {
  claim: Claim
  /** The journal has no steps of this run yet. */
  fresh: boolean
  signal: AbortSignal
  standAside: RunInHand['standAside']
}

type FinishReason = Exclude<Extract<RunEnding, { status: 'COMPLETED' }>['stopReason'], 'SKIPPED'>

/** How an attempt of a run ended. */
export type PerformEnd =
  /**
   * The model is done, or has reached a limit. `text`: its closing words. `isWritten`: the end was
   * written with the last step.
   */
  | { type: 'finished'; stopReason: FinishReason; text: string | null; isWritten?: true }
  /** A tool requested this end. */
  | { type: 'ending'; ending: RequestedEnding }
  /** Calls wait for a result or decision from outside the run. */
  | { type: 'waiting'; callIds: string[] }
  | { type: 'failed'; error: string; blame: Blame }
  /** A budget is exhausted, or rules out every model of the agent. */
  | { type: 'over-budget'; error: string }
  /** The run's signal aborted. */
  | { type: 'aborted' }

/** Performs one attempt of a run, from its claim until it ends or pauses. @throws RunLostError, database errors */
export async function perform(platform: Platform, parts: PerformParts, performance: Performance): Promise<PerformEnd> {
  const { scenes, toolbox, models, waits } = parts
  const { claim, fresh, signal } = performance
  const { label } = claim.run
  const events = createRunEvents(platform, claim.run)
  const [scene, steps] = await Promise.all([scenes.load(claim), fresh ? [] : parts.journal.read(claim.run.id)])
  retell(events, steps)
  const observed = parts.observer.begin(claim, scene.agent)
  const { journal } = observed
  const run = takeInHand(performance, scene, journal, events)
  const writer = await openWriter(platform, {
    ...{ speech: parts.speech, run, fresh },
    scene: { agent: scene.agent, originIn: (spaceId) => originIn(scene, claim, spaceId) },
  })
  const tools = await toolbox.toolsFor({ run, scene, speech: writer })
  const runner = observed.watch(createToolRunner({ ...parts, platform, run, journal, waits, writer }))
  const input: MindInput = {
    ...{ claim, scene, run, tools, scenes, journal, clock: platform.clock },
    decisionsOn: (calls) => decisionsOn(platform.db.prisma, calls),
  }
  const mind = observed.watchMind(mindOf(platform, parts, input))
  const silenceMs = platform.config.limits.modelSilenceSeconds * 1000
  const completing = (step: JournaledStep) =>
    isLast(step, run, writer) ? parts.lifecycle.completing(endWith(step)) : null
  const calling = { claim, tools, models, signal, silenceMs }
  const { prices } = platform.config
  const reserve: GenerationParts['reserve'] = (plan, steps) =>
    reserveBudget(platform.db, run, estimatedSpending(plan, { tools, steps, prices }))
  const generation: GenerationParts = { ...calling, reserve, journal, completing, writer, events }
  const loop = () => carryOn({ run, generation, runner, mind, agent: scene.agent, prices, label }, steps)
  try {
    const end = await finishing(writer, loop)
    if (end.type === 'failed') {
      platform.logger.warn({ runId: claim.run.id, error: end.error }, 'the run failed')
      await mind.onFailed(end.blame)
    }
    observed.end(end)
    // Publishing the end flushes the events as well, and is awaited.
    if (end.type === 'finished') events.flush()
    else await events.settled()
    return end
  } catch (error) {
    observed.failed(error)
    await events.settled()
    throw error
  }
}

interface Loop {
  run: RunInHand
  generation: GenerationParts
  runner: ToolRunner
  mind: Mind
  agent: SceneAgent
  prices: ModelPrices
  /** The confidentiality label as last written to the run's row. */
  label: readonly string[]
}

/**
 * The loop, driven by the journal: executes the pending calls of the last step, whether it was
 * journaled just now or by a worker that died; then either ends or makes the next generation.
 */
async function carryOn(loop: Loop, journaled: JournaledStep[]): Promise<PerformEnd> {
  const { run, generation } = loop
  const steps = [...journaled]
  for (;;) {
    const end = (await carryOut(loop, steps)) ?? endOf(loop, steps)
    const last = steps.at(-1)
    if (last !== undefined && end?.type !== 'aborted') generation.events.emit(stepFinished(last))
    if (end !== null) return end
    const plan = await paidPlan(loop, steps)
    if ('type' in plan) return plan
    const generated = await generate(generation, steps, plan)
    if (generated.type === 'over-budget') return generated
    if (generated.type === 'failed') return failed(generated.failure)
    if (generated.type === 'journaled' && generated.step.hasEnded === true) {
      generation.events.emit(stepFinished(generated.step))
      const { stopReason, summary: text } = endWith(generated.step)
      return { type: 'finished', stopReason, text, isWritten: true }
    }
    if (generated.type === 'aborted' || run.signal.aborted) return { type: 'aborted' }
    steps.push(generated.step)
  }
}

/** Plans the next step and reserves its budget; returns an end if no budget is left. */
async function paidPlan(loop: Loop, steps: JournaledStep[]): Promise<StepPlan | PerformEnd> {
  const { agent, generation, prices, run } = loop
  const planned = await nextPlan(loop, steps)
  // Planning reloads the scene, including the state of its budgets.
  const plan = affordable(planned, agent.budgetState, prices)
  if ('error' in plan) return { type: 'over-budget', error: plan.error }
  // Without a budget there is nothing to reserve, so save the statement.
  const over = agent.budgetState === null ? null : await generation.reserve(plan, steps)
  if (over !== null) return { type: 'over-budget', error: over }
  return run.signal.aborted ? { type: 'aborted' } : plan
}

/**
 * Plans the next step. Persists the run's confidentiality label before the model call, because
 * visibility of the run depends on it.
 */
async function nextPlan(loop: Loop, steps: JournaledStep[]): Promise<StepPlan> {
  const { claim, journal } = loop.generation
  const plan = await loop.mind.plan(steps)
  if (claim.run.label.length > loop.label.length) await journal.marked(claim)
  loop.label = claim.run.label
  return plan
}

/** Whether this step is the run's last, with no call to execute and no message left open. */
function isLast(step: JournaledStep, { signal }: RunInHand, writer: SpaceWriter): boolean {
  return step.calls.length === 0 && brokenOff(step) === null && !signal.aborted && writer.isQuiet()
}

/** The completion of a run whose last step made no calls. */
function endWith(step: JournaledStep): Completion & { stopReason: 'FINISHED' } {
  return { status: 'COMPLETED', stopReason: 'FINISHED', summary: closingWords(step) }
}

/**
 * Executes the calls of the last step that have no result yet, in order.
 * @returns an end, if the calls lead to one
 */
async function carryOut(loop: Loop, steps: JournaledStep[]): Promise<PerformEnd | null> {
  const { claim } = loop.run
  const last = steps.at(-1)
  if (last === undefined || brokenOff(last) !== null) return null
  const left = maxToolCallsOf(loop.agent) - callsIn(steps.slice(0, -1))
  const waiting: string[] = []
  loop.run.ending ??= endingAskedFor(last)
  for (const [index, call] of last.calls.entries()) {
    if (call.settledAt !== null) continue
    const end: CallEnd = isLeftToOthers(call)
      ? { type: 'waiting', isAsked: call.approvalState !== null }
      : await carryOutCall(loop, call, index < left)
    if (end.type === 'aborted' || loop.run.signal.aborted) return { type: 'aborted' }
    if (end.type === 'settled') Object.assign(call, end.settlement, { settledAt: new Date() })
    else if (!isLeftToOthers(call)) waitsFrom(call, end)
    // A think cycle continues: the answer arrives in the inbox.
    if (end.type === 'waiting' && claim.run.triggerType !== 'INBOX') waiting.push(call.id)
  }
  return waiting.length > 0 ? { type: 'waiting', callIds: waiting } : null
}

function waitsFrom(call: JournaledCall, { isAsked }: Extract<CallEnd, { type: 'waiting' }>): void {
  Object.assign(call, { status: 'WAITING', approvalState: isAsked ? 'PENDING' : null })
}

/** The call waits for somebody outside the run, or was approved and is executed by any worker. */
const isLeftToOthers = (call: JournaledCall) => call.status === 'WAITING' || isBeingCarriedOut(call)

async function carryOutCall(loop: Loop, call: JournaledCall, isAllowed: boolean): Promise<CallEnd> {
  const tool = loop.generation.tools.get(call.toolName)
  const end =
    tool !== undefined && isAllowed ? await loop.runner.carryOut(tool, call) : await refuse(loop, call, isAllowed)
  if (end.type === 'settled') loop.generation.events.emit({ type: 'RunToolReturned', toolCallId: call.id })
  return end
}

async function refuse({ generation }: Loop, call: JournaledCall, isAllowed: boolean): Promise<CallEnd> {
  const { claim, journal, writer } = generation
  const settlement = isAllowed ? goneTool(call.toolName) : refused('TOO_MANY_CALLS', TOO_MANY_CALLS)
  if (!(await writer.close({ toolCallId: call.id, ...settlement }))) await journal.settled(claim, call.id, settlement)
  return { type: 'settled', settlement }
}

/** Decides whether the run ends here instead of calling the model again. */
function endOf({ run, agent, mind }: Loop, steps: JournaledStep[]): PerformEnd | null {
  const last = steps.at(-1)
  if (run.signal.aborted) return { type: 'aborted' }
  if (last === undefined) return null
  run.ending ??= endingAskedFor(last)
  if (run.ending !== null) return { type: 'ending', ending: run.ending }
  const broken = brokenOff(last)
  if (broken !== null) return broken
  const stopReason = stopReasonOf(steps, agent, mind)
  return stopReason === null ? null : { type: 'finished', stopReason, text: closingWords(last) }
}

/** Why a run stops after a successful step; null if it continues. */
function stopReasonOf(steps: JournaledStep[], agent: SceneAgent, mind: Mind): FinishReason | null {
  if (steps.at(-1)?.calls.length === 0) return 'FINISHED'
  if (mind.isDone(steps)) return 'ALL_ANSWERED'
  if (callsIn(steps) >= maxToolCallsOf(agent)) return 'MAX_TOOL_CALLS'
  if (steps.length >= agent.maxSteps) return 'MAX_STEPS'
  const isSpent = agent.tokenBudget !== null && spentTokens(steps.map(({ step }) => step)) > agent.tokenBudget
  return isSpent ? 'TOKEN_BUDGET' : null
}

const callsIn = (steps: JournaledStep[]): number => steps.reduce((sum, { calls }) => sum + calls.length, 0)

/** The failure that a broken-off generation means for the run. */
function brokenOff({ step, calls }: JournaledStep): PerformEnd | null {
  const failed = (error: string, blame: Blame = 'unclear'): PerformEnd => ({ type: 'failed', error, blame })
  if (step.finishReason === 'content-filter')
    return failed("The provider's content filter stopped the model.", 'prompt')
  if (step.finishReason === 'interrupted') return failed('The model broke off in the middle of its answer.')
  if (step.finishReason === 'error') return failed('The model ended with an error.')
  if (step.finishReason === 'length' && calls.length > 0)
    return failed('The model reached its output limit in the middle of a tool call.', 'limit')
  return null
}

function failed({ message, blame }: ModelFailure): PerformEnd {
  return { type: 'failed', error: message, blame }
}

/** The end requested by a tool of the last step, if the worker died before applying it. */
function endingAskedFor({ calls }: JournaledStep): RequestedEnding | null {
  const states = calls.map(({ state }) => state as { ending?: RequestedEnding } | null)
  return states.find((state) => state?.ending != null)?.ending ?? null
}

function mindOf(platform: Platform, { recalling }: PerformParts, input: MindInput): Mind {
  if (input.scene.agent.mind === 'STATELESS') return createStatelessMind(input)
  return createPersistentMind({ ...input, platform, recalling })
}

/** The agent lost the tool after the model had called it. */
function goneTool(name: string) {
  return refused('NO_SUCH_TOOL', `You no longer have the tool ${name}.`)
}

const TOO_MANY_CALLS = 'This run has made all the tool calls that it may make.'

function refused(code: string, message: string) {
  return { status: 'FAILED' as const, output: failureResult(code, message), error: message }
}
