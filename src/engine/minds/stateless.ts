import type { LanguageModel, ModelMessage } from 'ai'
import type { Claim } from '../../runs/lifecycle.ts'
import type { RunInHand, Tool } from '../../tools/tool.ts'
import { guidanceFor } from '../guidance.ts'
import { instructionsOf, triggerMessageOf } from '../prompt.ts'
import type { Scene } from '../scene.ts'
import type { StepPlan } from '../tool-loop.ts'

/** From step `fromStep` until the next phase begins. */
interface Phase {
  fromStep: number
  model: string | null
  activeTools: string[] | null
  toolChoice: 'AUTO' | 'REQUIRED' | 'NONE'
}

/** Prepares what the model is shown. */
export interface Mind {
  /** The messages that a run begins with. */
  opening(): ModelMessage[]
  /** What the next step is sent, from the messages carried so far. */
  plan(step: number, carried: ModelMessage[]): Promise<StepPlan>
}

interface MindInput {
  claim: Claim
  scene: Scene
  run: RunInHand
  models: { resolve(name: string): LanguageModel }
  tools: Map<string, Tool>
}

/** A stateless mind: its context is rebuilt from the room at every wake-up. */
export function createStatelessMind({ claim, scene, run, models, tools }: MindInput): Mind {
  const phases = scene.agent.phases as unknown as Phase[]
  const guidance = guidanceFor(tools)
  return {
    opening: () => [{ role: 'user', content: triggerMessageOf(claim, scene) }],
    async plan(step, messages) {
      const phase = phases.findLast(({ fromStep }) => fromStep <= step)
      const name = phase?.model ?? scene.agent.model
      return {
        instructions: instructionsOf({ claim, scene, activeSpaceId: run.activeSpace?.id ?? null, guidance }),
        messages,
        lasting: messages.length,
        model: { name, model: models.resolve(name) },
        activeTools: [...tools.keys()].filter((tool) => phase?.activeTools?.includes(tool) ?? true),
        toolChoice: (phase?.toolChoice ?? 'AUTO').toLowerCase() as StepPlan['toolChoice'],
      }
    },
  }
}
