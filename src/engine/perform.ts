import type { Recalling } from '../agents/recall.ts'
import type { Discretion } from '../confidentiality/discretion.ts'
import type { ModelPrices } from '../config.ts'
import type { Mind, MindInput, StepPlan } from '../context/mind.ts'
import { createPersistentMind } from '../context/persistent.ts'
import { originIn, type Scene, type SceneAgent, type SceneLoader } from '../context/scene.ts'
import { createStatelessMind } from '../context/stateless.ts'
import type { AwaitAnswer } from '../flows/await-answer.ts'
import type { DecideCall } from '../flows/decide-call.ts'
import type { DerivedTexts } from '../flows/derived-texts.ts'
import type { KeepFiles } from '../flows/keep-files.ts'
import type { Lifecycle } from '../flows/lifecycle.ts'
import { cancelRemoteTasksOf } from '../flows/remote-tasks.ts'
import type { UseGrant } from '../flows/use-grant.ts'
import { isForeignModel } from '../lib/foreign-model.ts'
import { hasTextCall } from '../lib/text-call.ts'
import type { Platform } from '../platform/platform.ts'
import type { RunMessagesParts } from '../posting/run-messages.ts'
import { finishAfter, openWriter } from '../posting/space-writer.ts'
import { placeOfPlainText, postablePlainText } from '../rules/plain-text.ts'
import { defaultPlace } from '../rules/threads.ts'
import type { Journal, JournaledStep, KeptStep } from '../runs/journal.ts'
import { createRunEvents } from '../runs/run-events.ts'
import type { RemoteAgents } from '../tools/a2a/remote-agents.ts'
import type { RunExecution } from '../tools/run-context.ts'
import { ToolFailure } from '../tools/tool.ts'
import type { Toolbox } from '../tools/toolbox.ts'
import type { GenerationParts, Models } from './attempt.ts'
import { generate } from './generation.ts'
import type { Observer } from './observation.ts'
import { executePendingCalls, resumeEnding } from './pending-calls.ts'
import type { Pictures } from './pictures.ts'
import { withRelay } from './relay-model.ts'
import { republishSteps, stepFinished } from './republish.ts'
import { affordable, estimatedSpending, type RunBudget } from './spending.ts'
import { completionAfter, endAfter, failureIn, type PerformEnd } from './step-end.ts'
import { createToolRunner, type ToolRunner } from './tool-runner.ts'

export interface PerformParts {
  journal: Journal
  awaitAnswer: AwaitAnswer['awaitAnswer']
  decideCall: Pick<DecideCall, 'recheck' | 'connected'>
  useGrant: UseGrant['useGrant']
  keepFiles: KeepFiles['keepFiles']
  discretion: Pick<Discretion, 'toLeave'>
  speech: RunMessagesParts
  scenes: SceneLoader
  toolbox: Toolbox
  models: { forRun(): Models }
  remotes: Pick<RemoteAgents, 'follow'>
  pictures: Pictures
  observer: Observer
  recalling: Recalling
  lifecycle: Pick<Lifecycle, 'completeIfAloneSql'>
  derivedTexts: Pick<DerivedTexts, 'forgetInRun'>
}

/** A claimed run. */
export interface Performance {
  run: RunExecution
  budget: RunBudget
  /** Whether the journal has no steps of this run yet. */
  fresh: boolean
}

/**
 * Performs one attempt of a run, from its claim until the run ends or pauses. @throws RunLostError, and errors of the
 * database
 */
export async function perform(platform: Platform, parts: PerformParts, performance: Performance): Promise<PerformEnd> {
  const { run } = performance
  const { id: runId, agentId } = run.context.run
  await platform.conductor?.reached({ type: 'begin', runId, agentId })
  const { steps, observed, loop } = await prepare(platform, parts, performance)
  const { events, mind, writer } = loop
  try {
    const end = await finishAfter(writer, () => performAll(platform, loop, steps))
    if (end.type === 'failed') {
      platform.logger.warn({ runId: run.context.run.id, model: end.model, error: end.error }, 'the run failed')
      await mind.onFailed(end.blame)
    }
    observed.end(end)
    // This is not awaited, because the code that publishes the end of a finished run also flushes these events, and is
    // awaited.
    if (end.type === 'finished') events.flush()
    else await events.settled()
    return end
  } catch (error) {
    observed.failed(error)
    await events.settled()
    throw error
  }
}

/** The parts and state of an attempt's loop. */
interface Loop extends GenerationParts {
  runner: ToolRunner
  mind: Mind
  agent: SceneAgent
  scene: Pick<Scene, 'sources'>
  prices: ModelPrices
  release: RunBudget['release']
  /** The confidentiality label that was last written to the run's row. */
  writtenLabel: readonly string[]
}

/** Loads the scene and the journal of a run, and creates the parts of its loop. */
async function prepare(platform: Platform, parts: PerformParts, { run, budget, fresh }: Performance) {
  const { awaitAnswer, decideCall, useGrant, discretion, lifecycle, models, scenes, speech } = parts
  const { prices, limits } = platform.config
  const { id: runId, label: writtenLabel } = run.context.run
  const events = createRunEvents(platform, { id: runId, isConfidential: () => run.context.run.label.length > 0 })
  const [{ scene, label }, steps] = await Promise.all([
    scenes.load(run.context),
    fresh ? [] : parts.journal.read(runId),
  ])
  run.apply({ learned: { label } })
  republishSteps(events, steps)
  const { agent } = scene
  const observed = parts.observer.begin(run, agent)
  const { journal } = observed
  const origin = (spaceId: string) => originIn(scene, run.context, spaceId)
  const place = (spaceId: string) => defaultPlace({ ...run.context.run, sources: scene.sources }, spaceId)
  const spoken = { agent, originIn: origin, placeIn: place }
  const continues = isRelayed(steps)
  const writer = await openWriter(platform, { speech, run, fresh, continues, scene: spoken })
  const tools = await parts.toolbox.toolsFor({ run: run.context.run, scene, speech: writer })
  const flows = { awaitAnswer, decideCall, useGrant, keepFiles: parts.keepFiles, discretion }
  const runner = createToolRunner({ platform, run, journal, events, ...flows, writer })
  const mind = createMind(platform, parts, {
    run,
    scene,
    tools,
    scenes,
    journal,
    derivedTexts: parts.derivedTexts,
    db: platform.db,
    clock: platform.clock,
  })
  const cancelTasks = () => cancelRemoteTasksOf(platform, runId)
  const loop: Loop = {
    run,
    agent,
    scene,
    tools,
    models: withRelay(models.forRun(), { run, scene, tools, remotes: parts.remotes, cancelTasks }),
    pictures: parts.pictures,
    silenceMs: limits.modelSilenceSeconds * 1000,
    prices,
    journal,
    writer,
    events,
    runner: observed.watch(runner),
    mind: inTurn(platform, runId, observed.watchMind(mind)),
    writtenLabel,
    reserve: (plan, steps) => budget.reserve(estimatedSpending(plan, { tools, steps, prices })),
    release: budget.release,
    completing(step) {
      const isLast = step.calls.length === 0 && failureIn(step) === null && !run.signal.aborted && writer.isQuiet()
      const completion = completionAfter(step)
      const closing = { stopReason: completion.stopReason, text: completion.summary }
      const isSpoken = isLast && plainTextAfter({ run, agent, scene, writer }, closing) !== null
      return isLast && !isSpoken ? lifecycle.completeIfAloneSql(completion) : null
    },
  }
  return { steps, observed, loop }
}

/** Whether the next generation relays an answer from another server, for the first time or again. */
function isRelayed(steps: readonly JournaledStep[]): boolean {
  const last = steps.at(-1)
  if (last === undefined || last.calls.some(({ settledAt }) => settledAt === null)) return false
  return isForeignModel(last.step.model)
}

function createMind(platform: Platform, { recalling }: PerformParts, input: MindInput): Mind {
  if (input.scene.agent.mind === 'STATELESS') return createStatelessMind(input)
  return createPersistentMind({ ...input, platform, recalling })
}

/** In a replay, delays the planning of each step until the point at which it was planned in the recording. */
function inTurn({ conductor }: Platform, runId: string, mind: Mind): Mind {
  if (conductor === undefined) return mind
  return {
    ...mind,
    async plan(steps) {
      await conductor.reached({ type: 'plan', runId, step: steps.length })
      return mind.plan(steps)
    },
  }
}

/**
 * Performs the steps. If the run has posted nothing by its end and the agent's settings require it, posts its closing
 * text.
 */
async function performAll(platform: Platform, loop: Loop, steps: readonly JournaledStep[]): Promise<PerformEnd> {
  const end = await performSteps(loop, steps)
  if (end.type !== 'finished' || end.isWritten === true) return end
  const { run, writer } = loop
  const plain = plainTextAfter(loop, end)
  if (plain === null) return end
  await writer.postPlainText(plain.spaceId, plain.text).catch((error) => {
    if (!(error instanceof ToolFailure)) throw error
    platform.logger.info(
      { runId: run.context.run.id, reason: error.message },
      'could not post the closing text of a run',
    )
  })
  return end
}

/**
 * Returns the closing text to post, and the space; null if the agent's settings do not require this or the run has
 * already posted.
 */
function plainTextAfter(
  { run, agent, scene, writer }: Pick<Loop, 'run' | 'agent' | 'scene' | 'writer'>,
  { stopReason, text: closing }: { stopReason: string; text: string | null },
): { spaceId: string; text: string } | null {
  if (writer.hasPosted()) return null
  const isCall = closing !== null && hasTextCall(closing)
  if (agent.plainText !== 'SPOKEN_IF_SILENT' || stopReason !== 'FINISHED' || isCall) return null
  const { activeSpace, run: row } = run.context
  const place = { ...row, activeSpaceId: activeSpace?.id ?? null, sources: scene.sources }
  const [spaceId, text] = [placeOfPlainText(place), postablePlainText(closing)]
  return spaceId === null || text === null ? null : { spaceId, text }
}

/**
 * The loop over the steps of the journal. Executes the pending calls of the last step, no matter which worker journaled
 * it, and then either ends or makes the next generation.
 */
async function performSteps(loop: Loop, journaled: readonly JournaledStep[]): Promise<PerformEnd> {
  const { run, events } = loop
  const steps = [...journaled]
  for (;;) {
    const last = steps.at(-1)
    if (last !== undefined) {
      const { step, end } = await completeStep(loop, steps, last)
      if (end?.type !== 'aborted') events.emit(stepFinished(step))
      if (end !== null) return end
      steps[steps.length - 1] = step
    }
    if (run.signal.aborted) return { type: 'aborted' }

    const next = await generateStep(loop, steps)
    if ('type' in next) return next
    if (next.hasEnded === true) {
      events.emit(stepFinished(next))
      const { stopReason, summary: text } = completionAfter(next)
      return { type: 'finished', stopReason, text, isWritten: true }
    }
    if (run.signal.aborted) return { type: 'aborted' }
    steps.push(next)
  }
}

/** Plans the next step and makes its generation. Returns the journaled step, or an end if there is no next step. */
async function generateStep(loop: Loop, steps: JournaledStep[]): Promise<KeptStep | PerformEnd> {
  const plan = await planStep(loop, steps)
  if ('type' in plan) return plan
  const generated = await generate(loop, steps, plan)
  if (generated.type === 'journaled') {
    loop.release()
    return generated.step
  }
  if (generated.type !== 'failed') return generated
  const { message: error, blame, fault } = generated.failure
  return { type: 'failed', error, blame, fault, model: generated.model }
}

/**
 * Executes the pending calls of the last step.
 * @returns the step with their results, and an end if the run stops after it
 */
async function completeStep(
  loop: Loop,
  steps: readonly JournaledStep[],
  last: JournaledStep,
): Promise<{ step: JournaledStep; end: PerformEnd | null }> {
  const { run, agent, mind } = loop
  const { step, end } = await executePendingCalls(loop, steps, last)
  if (run.signal.aborted) return { step, end: { type: 'aborted' } }
  if (end !== null) return { step, end }
  resumeEnding(run, step)
  const { ending } = run.context
  return { step, end: endAfter([...steps.slice(0, -1), step], { agent, mind, ending }) }
}

/** Plans the next step and reserves its budget. Returns an end if no budget is left. */
async function planStep(loop: Loop, steps: JournaledStep[]): Promise<StepPlan | PerformEnd> {
  const { agent, journal, mind, prices, reserve, run } = loop
  const planned = await mind.plan(steps)
  // The label decides who may see the run, so it is written before the model is called.
  const { label } = run.context.run
  if (label.length > loop.writtenLabel.length) await journal.marked(run.context)
  loop.writtenLabel = label
  // The budgets are current, because planning has reloaded the scene.
  const plan = affordable(planned, agent.budgetState, prices)
  if ('error' in plan) return { type: 'over-budget', error: plan.error }
  // Without a budget there is nothing to reserve, so the statement is skipped.
  const over = agent.budgetState === null ? null : await reserve(plan, steps)
  if (over !== null) return { type: 'over-budget', error: over }
  return run.signal.aborted ? { type: 'aborted' } : plan
}
