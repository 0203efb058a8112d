import type { LanguageModel } from 'ai'
import type { Recalling } from '../agents/recall.ts'
import type { Json, JsonObject } from '../lib/json.ts'
import type { Platform } from '../platform/platform.ts'
import { closingWords } from '../runs/conversation.ts'
import { isStepOver, type Journal, type JournaledStep } from '../runs/journal.ts'
import type { Claim } from '../runs/lifecycle.ts'
import { createRunEvents, type RunEvents } from '../runs/run-events.ts'
import type { ToolWaits } from '../runs/tool-waits.ts'
import type { CompositePosting } from '../spaces/composite-posting.ts'
import type { Posting } from '../spaces/posting.ts'
import { failureResult, type RequestedEnding, type RunInHand, type Tool, WAITING } from '../tools/tool.ts'
import type { Toolbox } from '../tools/toolbox.ts'
import type { Mind, MindInput } from './minds/mind.ts'
import { createPersistentMind } from './minds/persistent.ts'
import { createStatelessMind } from './minds/stateless.ts'
import { ModelFailure } from './model-error.ts'
import type { Observer } from './observation.ts'
import type { Scene, SceneAgent, SceneLoader } from './scene.ts'
import type { SpaceWriter } from './space-writer.ts'
import { spentTokens } from './token-usage.ts'
import { type LoopEnd, runToolLoop } from './tool-loop.ts'
import { createToolRunner, type ToolRunner } from './tool-runner.ts'
import { finishing, openWriter } from './writer.ts'

/** The model behind a name. */
export interface Models {
  resolve(name: string): LanguageModel
}

export interface PerformParts {
  journal: Journal
  waits: ToolWaits
  posting: Posting
  composites: CompositePosting
  scenes: SceneLoader
  toolbox: Toolbox
  models: Models
  observer: Observer
  recalling: Recalling
}

/** A claimed run, and what binds it to this process. */
export interface Performance {
  claim: Claim
  /** Nothing of it is in the journal yet. */
  fresh: boolean
  signal: AbortSignal
  standAside: RunInHand['standAside']
}

export type PerformEnd = LoopEnd | { type: 'ending'; ending: RequestedEnding }

/** One stretch of a run, from being claimed to its end or its next pause: what the journal holds is carried on, then the loop. */
export async function perform(platform: Platform, parts: PerformParts, performance: Performance): Promise<PerformEnd> {
  const { scenes, toolbox, models, waits } = parts
  const { claim, fresh, signal } = performance
  const events = createRunEvents(platform, claim.run.id)
  const [scene, steps] = await Promise.all([scenes.load(claim), fresh ? [] : parts.journal.read(claim.run.id)])
  const observed = parts.observer.begin(claim, scene.agent)
  const { journal } = observed
  const run = takeInHand(performance, scene, journal, events)
  const writer = await openWriter(platform, { ...parts, run, scene, fresh })
  const tools = await toolbox.toolsFor({ run, scene, speech: writer })
  const runner = observed.watch(createToolRunner({ platform, run, journal, waits, writer, events }))
  const stretch = async (): Promise<PerformEnd> => {
    const carried = await carryOn({ claim, steps, tools, runner, journal, writer })
    if (carried.waiting.length > 0) return { type: 'waiting', callIds: carried.waiting }
    run.ending ??= endingAskedFor(carried.steps)
    if (run.ending !== null) return { type: 'ending', ending: run.ending }
    const mind = mindOf(platform, parts, { claim, scene, run, models, tools, scenes, clock: platform.clock })
    const opening = await mind.opening(carried.steps)
    const over = endOfJournal(carried.steps, scene.agent, mind)
    if (over !== null) return over
    const end = await thinking(mind, () =>
      runToolLoop(
        {
          claim,
          stepsBefore: steps.map(({ step }) => step),
          ...opening,
          tools,
          maxSteps: scene.agent.maxSteps,
          tokenBudget: scene.agent.tokenBudget,
          signal,
          plan: mind.plan,
          isDone: (steps) => run.ending !== null || mind.isDone(steps),
        },
        { journal, runner, writer, events },
      ),
    )
    return end.type === 'finished' && run.ending !== null ? { type: 'ending', ending: run.ending } : end
  }
  try {
    const end = await finishing(writer, signal, stretch)
    observed.end(end)
    return end
  } catch (error) {
    observed.failed(error)
    throw error
  } finally {
    await events.settled()
  }
}

/** A loop, of whose failure the mind learns. */
async function thinking(mind: Mind, loop: () => Promise<LoopEnd>): Promise<LoopEnd> {
  try {
    const end = await loop()
    if (end.type === 'failed') await mind.onFailed(end.blame)
    return end
  } catch (error) {
    if (error instanceof ModelFailure) await mind.onFailed(error.blame)
    throw error
  }
}

function takeInHand(
  { claim, signal, standAside }: Performance,
  scene: Scene,
  journal: Journal,
  events: RunEvents,
): RunInHand {
  const { activeSpaceId, enteredSeq } = claim.run
  const run: RunInHand = {
    claim,
    agent: { id: scene.agent.id, name: scene.agent.name },
    activeSpace: activeSpaceId === null ? null : { id: activeSpaceId, seq: enteredSeq ?? 0 },
    signal,
    ending: null,
    standAside,
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
  runner: ToolRunner
  journal: Journal
  writer: SpaceWriter
}

/** Executes, in order, the calls of the last journaled step that have no result yet. */
async function carryOn(input: CarryOnInput): Promise<{ steps: JournaledStep[]; waiting: string[] }> {
  const { claim, steps, tools, runner, journal, writer } = input
  const last = steps.at(-1)
  if (last === undefined || isStepOver(last)) return { steps, waiting: [] }
  const waiting: string[] = []
  for (const call of last.calls) {
    if (call.settledAt !== null) continue
    if (call.status === 'WAITING') {
      // A think cycle has gone on: the answer will come to the inbox.
      if (claim.run.triggerType !== 'INBOX') waiting.push(call.id)
      continue
    }
    const tool = tools.get(call.toolName)
    if (tool === undefined) {
      const gone = goneTool(call.toolName)
      if (!(await writer.close({ toolCallId: call.id, ...gone }))) await journal.settled(claim, call.id, gone)
    } else if ((await runner.execute(tool, call.id, call.input as Json, (call.state ?? {}) as JsonObject)) === WAITING)
      waiting.push(call.id)
  }
  if (waiting.length > 0) return { steps, waiting }
  return { steps: await journal.read(claim.run.id), waiting }
}

/** How the loop had ended, when the worker died between that and the run's end: the model is not asked again. */
function endOfJournal(steps: JournaledStep[], { maxSteps, tokenBudget }: SceneAgent, mind: Mind): LoopEnd | null {
  const last = steps.at(-1)
  if (last === undefined) return null
  const isSpent = tokenBudget !== null && spentTokens(steps.map(({ step }) => step)) > tokenBudget
  if (last.calls.length > 0 && steps.length < maxSteps && !isSpent && !mind.isDone([])) return null
  return { type: 'finished', text: closingWords(last) }
}

/** The end that a tool of the last step has asked for, when the worker died before it came to that. */
function endingAskedFor(steps: JournaledStep[]): RequestedEnding | null {
  const states = (steps.at(-1)?.calls ?? []).map(({ state }) => state as { ending?: RequestedEnding } | null)
  return states.find((state) => state?.ending != null)?.ending ?? null
}

function mindOf(platform: Platform, { recalling }: PerformParts, input: MindInput): Mind {
  if (input.scene.agent.mind === 'STATELESS') return createStatelessMind(input)
  return createPersistentMind({ ...input, platform, recalling })
}

/** The agent lost the tool between the call and now. */
function goneTool(name: string) {
  const message = `You no longer have the tool ${name}.`
  return { status: 'FAILED' as const, output: failureResult('NO_SUCH_TOOL', message), error: message }
}
