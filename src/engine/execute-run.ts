import type { ModelMessage, LanguageModel } from 'ai'
import { messageOf } from '../lib/errors.ts'
import type { Json } from '../lib/json.ts'
import type { Platform } from '../platform/platform.ts'
import { runChannel } from '../realtime/topics.ts'
import type { Journal, JournaledStep } from '../runs/journal.ts'
import type { Claim, Lifecycle } from '../runs/lifecycle.ts'
import { createRunEvents } from '../runs/run-events.ts'
import type { ToolWaits } from '../runs/tool-waits.ts'
import { type Posting, RunLostError } from '../spaces/posting.ts'
import type { RunInHand, Tool } from '../tools/tool.ts'
import { WAITING } from '../tools/tool.ts'
import type { Toolbox } from '../tools/toolbox.ts'
import { messagesOf } from './conversation.ts'
import { createMind } from './minds/stateless.ts'
import { readableModelError } from './model-error.ts'
import type { Scene, SceneLoader } from './scene.ts'
import { createSpaceWriter } from './space-writer.ts'
import { type LoopEnd, runToolLoop } from './tool-loop.ts'
import { createToolRunner } from './tool-runner.ts'

/** Why a run's signal aborted. */
export type AbortReason = 'stopped' | 'out-of-time' | 'handed-back'

/** The model behind a name. */
export interface Models {
  resolve(name: string): LanguageModel
}

export interface ExecutorParts {
  lifecycle: Lifecycle
  journal: Journal
  waits: ToolWaits
  posting: Posting
  scenes: SceneLoader
  toolbox: Toolbox
  models: Models
}

/** Executes claimed runs. */
export interface Executor {
  /**
   * Takes a claimed run to its end, its next pause, or until `signal` aborts it with an AbortReason. Never throws.
   * @returns `handed-back` when the run is still RUNNING and another worker must take it up; else `done`.
   */
  execute(claim: Claim, signal: AbortSignal): Promise<'done' | 'handed-back'>
}

export function createExecutor(platform: Platform, parts: ExecutorParts): Executor {
  const { lifecycle } = parts
  const { signals, logger, config } = platform

  async function carryOut(claim: Claim, signal: AbortSignal): Promise<void> {
    const end = await perform(platform, parts, claim, signal)
    if (end.type === 'waiting') {
      if (!(await lifecycle.pause(claim, end.callIds))) await carryOut(claim, signal)
    } else if (end.type === 'finished') {
      await lifecycle.end(claim, { status: 'COMPLETED', summary: end.text })
    } else if (end.type === 'failed') {
      await lifecycle.end(claim, { status: 'FAILED', error: end.error })
    }
  }

  async function failed(claim: Claim, error: unknown): Promise<void> {
    if (error instanceof RunLostError) return
    logger.warn({ runId: claim.run.id, error: messageOf(error) }, 'a run failed')
    await lifecycle.end(claim, { status: 'FAILED', error: readableModelError(error) })
  }

  return {
    async execute(claim, outer) {
      const { run } = claim
      const abort = new AbortController()
      const signal = AbortSignal.any([outer, abort.signal])
      const unsubscribe = await signals.subscribe(runChannel(run.id), ({ type }) => {
        if (type === 'stop') abort.abort('stopped' satisfies AbortReason)
      })
      const left = (run.startedAt?.getTime() ?? Date.now()) + config.limits.maxRunSeconds * 1000 - Date.now()
      const timer = setTimeout(() => abort.abort('out-of-time' satisfies AbortReason), Math.max(0, left))
      try {
        await carryOut(claim, signal).catch(async (error) => {
          if (!signal.aborted) await failed(claim, error)
        })
        if (signal.reason === 'out-of-time') {
          const error = `The run took longer than ${config.limits.maxRunSeconds} s, the most it may.`
          await lifecycle.end(claim, { status: 'FAILED', error })
        }
        return signal.reason === 'handed-back' ? 'handed-back' : 'done'
      } catch (error) {
        logger.error({ runId: run.id, error: messageOf(error) }, 'a run could not be ended here; another worker takes it up')
        return 'handed-back'
      } finally {
        clearTimeout(timer)
        unsubscribe()
        if (signal.reason === 'stopped') await signals.publish(runChannel(run.id), { type: 'stopped' })
      }
    },
  }
}

/** One stretch of a run: what is journaled is carried on, then the tool loop. */
async function perform(platform: Platform, parts: ExecutorParts, claim: Claim, signal: AbortSignal): Promise<LoopEnd> {
  const { journal, scenes, posting, toolbox, models, waits } = parts
  const events = createRunEvents(platform, claim.run.id)
  const [scene, steps] = await Promise.all([scenes.load(claim), claim.attempt === 1 ? [] : journal.read(claim.run.id)])
  const run = runInHand(claim, scene, signal, parts, events)
  const writer = createSpaceWriter({ platform, posting, run, origin: scene.origin })
  const tools = toolbox.toolsFor({ toolset: scene.agent.toolset, speech: writer })
  const runner = createToolRunner({ platform, run, journal, waits, writer, events })
  try {
    const carriedOn = await carryOn({ claim, steps, tools, runner, journal })
    if (carriedOn.waiting.length > 0) return { type: 'waiting', callIds: carriedOn.waiting }
    const mind = createMind({ claim, scene, run, models, tools })
    return await runToolLoop(
      {
        claim,
        stepsBefore: steps.map(({ step }) => step),
        messages: [...mind.opening(), ...messagesOf(carriedOn.steps)],
        tools,
        maxSteps: scene.agent.maxSteps,
        tokenBudget: scene.agent.tokenBudget,
        signal,
        plan: mind.plan,
        isDone: () => false,
      },
      { journal, runner, writer, events },
    )
  } finally {
    await events.settled()
  }
}

function runInHand(
  claim: Claim,
  scene: Scene,
  signal: AbortSignal,
  { journal }: ExecutorParts,
  events: ReturnType<typeof createRunEvents>,
): RunInHand {
  const { activeSpaceId, enteredSeq } = claim.run
  const run: RunInHand = {
    claim,
    agent: { id: scene.agent.id, name: scene.agent.name },
    activeSpace: activeSpaceId === null ? null : { id: activeSpaceId, seq: enteredSeq ?? 0 },
    signal,
    async enter(space) {
      await journal.entered(claim, space.id, space.seq)
      run.activeSpace = space
      events.emit({ type: 'RunSpaceEntered', spaceId: space.id })
    },
  }
  return run
}

interface CarryOnInput {
  claim: Claim
  steps: JournaledStep[]
  tools: Map<string, Tool>
  runner: ReturnType<typeof createToolRunner>
  journal: Journal
}

/** Executes, in order, the calls of the last journaled step that have no result yet. */
async function carryOn({ claim, steps, tools, runner, journal }: CarryOnInput): Promise<{ steps: JournaledStep[]; waiting: string[] }> {
  const last = steps.at(-1)
  if (last === undefined || last.step.response !== null) return { steps, waiting: [] }
  const waiting: string[] = []
  for (const call of last.calls) {
    if (call.settledAt !== null) continue
    const tool = tools.get(call.toolName)
    if (call.status === 'WAITING') waiting.push(call.id)
    else if (tool !== undefined && (await runner.execute(tool, call.id, call.input as Json)) === WAITING) waiting.push(call.id)
  }
  if (waiting.length > 0) return { steps, waiting }
  const reread = await journal.read(claim.run.id)
  const added: ModelMessage[] = messagesOf(reread.slice(-1))
  await journal.stepEnded(claim, last.step.index, added, last.step.durationMs ?? 0)
  return { steps: reread, waiting }
}
