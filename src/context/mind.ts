import type { ModelMessage } from 'ai'
import type { ModelSettings } from '../agents/model-settings.ts'
import type { ToolPhase } from '../agents/tool-phases.ts'
import type { DerivedTexts } from '../flows/derived-texts.ts'
import type { Run } from '../generated/prisma/client.ts'
import type { Clock } from '../platform/clock.ts'
import type { Database } from '../platform/db.ts'
import type { Blame } from '../rules/run-end.ts'
import type { Journal, JournaledStep } from '../runs/journal.ts'
import type { Withheld } from '../runs/withheld.ts'
import type { RunExecution } from '../tools/run-context.ts'
import type { Tool } from '../tools/tool.ts'
import type { Scene, SceneAgent, SceneLoader } from './scene.ts'

/** The input of a generation. It is decided immediately before the generation. */
export interface StepPlan {
  instructions: string
  /** The complete list of messages for the model: the messages of the previous step, its response, and new messages. */
  messages: ModelMessage[]
  /** The number of new messages at the end of the list. */
  added: number
  /**
   * Whether the new messages include the previous step's response. They do if a message before the response is new or
   * has changed.
   */
  holdsResponse?: boolean
  /** The names of the model to call and of its fallbacks, in order. */
  models: readonly [string, ...string[]]
  modelSettings: ModelSettings
  activeTools: string[]
  toolChoice: 'auto' | 'required' | 'none'
  /** The number of the agent's notes that are withheld from the model, by space. */
  withheld: Withheld[]
}

/** An agent memory mode, which prepares the input of the model and adds the sources of that input to the run. */
export interface Mind {
  /** Returns the input for the next step after these steps. */
  plan(steps: JournaledStep[]): Promise<StepPlan>
  /** Whether the run has finished the work for which it was started. */
  isDone(steps: readonly JournaledStep[]): boolean
  /** Called when the run fails because its model has failed. */
  onFailed(blame: Blame): Promise<void>
}

export interface MindInput {
  run: RunExecution
  scene: Scene
  tools: Map<string, Tool>
  scenes: Pick<SceneLoader, 'refresh' | 'meanwhile'>
  journal: Pick<Journal, 'entered' | 'read'>
  derivedTexts: Pick<DerivedTexts, 'forgetInRun'>
  db: Pick<Database, 'prisma'>
  clock: Clock
}

/** Reads the run's journal again. It no longer contains the text of messages that were deleted in the meantime. */
export async function readAnew({
  run,
  journal,
  derivedTexts,
  db,
}: MindInput): Promise<{ steps: JournaledStep[]; state: Run['state'] }> {
  const { id } = run.context.run
  await derivedTexts.forgetInRun(id)
  const steps = await journal.read(id)
  const { state } = await db.prisma.run.findUniqueOrThrow({ where: { id }, select: { state: true } })
  return { steps, state }
}

/**
 * Whether texts have been removed from the run's journal since this worker claimed the run, so that the copy in
 * memory is out of date.
 */
export const isRedacted = ({ scene, run }: Pick<MindInput, 'scene' | 'run'>): boolean =>
  scene.redactions > run.context.run.redactions

/** Returns the models and tools of a step by the agent's phases. `skip` is always available to agents that have it. */
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
