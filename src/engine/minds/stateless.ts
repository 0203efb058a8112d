import { messagesOf } from '../../runs/conversation.ts'
import { guidanceFor } from '../guidance.ts'
import { instructionsOf, triggerMessageOf } from '../prompt.ts'
import { type Mind, type MindInput, phaseOf } from './mind.ts'

/** A stateless mind: its context is rebuilt from the room at every wake-up. */
export function createStatelessMind(input: MindInput): Mind {
  const { claim, scene, run, tools } = input
  const guidance = guidanceFor(tools)
  return {
    async opening(steps) {
      return {
        messages: [{ role: 'user', content: triggerMessageOf(claim, scene) }, ...messagesOf(steps)],
        recorded: 0,
      }
    },
    async plan(step, messages) {
      return {
        instructions: instructionsOf({ claim, scene, activeSpaceId: run.activeSpace?.id ?? null, guidance }),
        messages,
        lasting: messages.length,
        ...phaseOf(scene.agent, step, input),
      }
    },
    isDone: () => false,
  }
}
