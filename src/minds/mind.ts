import type { ModelMessage } from 'ai'
import type { ModelSettings } from '../agents/model-settings.ts'
import type { ToolPhase } from '../agents/tool-phases.ts'
import type { Clock } from '../platform/clock.ts'
import type { ToldDecisions } from '../runs/decisions-told.ts'
import type { Journal, JournaledCall, JournaledStep } from '../runs/journal.ts'
import type { Claim } from '../runs/lifecycle.ts'
import type { Withheld } from '../runs/withheld.ts'
import type { RunInHand, Tool } from '../tools/tool.ts'
import type { Blame } from './model-error.ts'
import type { Scene, SceneAgent, SceneLoader } from './scene.ts'

/** What a step is sent, decided right before it. */
export interface StepPlan {
  instructions: string
  /** The whole list that the model gets: what the step before was sent and what it added, then what is new. */
  messages: ModelMessage[]
  /** How many of them, the last, are new with this step. */
  added: number
  /** What the step before added is among those: something new, or something else, stands before it. */
  holdsResponse?: boolean
  /** By name: the one to ask, then those to ask where its provider fails, in order. */
  models: readonly [string, ...string[]]
  modelSettings: ModelSettings
  activeTools: string[]
  toolChoice: 'auto' | 'required' | 'none'
  /** Of what the agent keeps, what it is not shown. */
  withheld: Withheld[]
}

/** Prepares what the model is shown. */
export interface Mind {
  /** What the step after these is sent. */
  plan(steps: JournaledStep[]): Promise<StepPlan>
  /** Whether the mind has done what it woke for. */
  isDone(steps: JournaledStep[]): boolean
  /** The model failed, and the run fails with it. */
  onFailed(blame: Blame): Promise<void>
}

export interface MindInput {
  claim: Claim
  scene: Scene
  run: RunInHand
  tools: Map<string, Tool>
  scenes: Pick<SceneLoader, 'refresh' | 'meanwhile'>
  journal: Pick<Journal, 'entered'>
  clock: Clock
  /** Of calls that people were asked about, those that are decided. */
  decisionsOn(calls: JournaledCall[]): Promise<ToldDecisions[]>
}

/** The models and the tools of a step, by the agent's phases. Whoever has `skip` may always call it. */
export function phaseOf(
  { phases, model, fallbackModels, modelSettings }: SceneAgent,
  step: number,
  { tools }: Pick<MindInput, 'tools'>,
): Pick<StepPlan, 'models' | 'modelSettings' | 'activeTools' | 'toolChoice'> {
  const phase = (phases as unknown as ToolPhase[]).findLast(({ fromStep }) => fromStep <= step)
  const first = phase?.model ?? model
  return {
    models: [first, ...fallbackModels.filter((name) => name !== first)],
    modelSettings: { ...(modelSettings as ModelSettings | null), ...phase?.modelSettings },
    activeTools: [...tools.keys()].filter((tool) => tool === 'skip' || (phase?.activeTools?.includes(tool) ?? true)),
    toolChoice: (phase?.toolChoice ?? 'AUTO').toLowerCase() as StepPlan['toolChoice'],
  }
}
