import { messagesOf } from '../../runs/conversation.ts'
import { guidanceFor } from '../guidance.ts'
import { instructionsOf, triggerMessageOf } from '../prompt.ts'
import { runNotice } from '../run-notice.ts'
import { type Mind, type MindInput, phaseOf } from './mind.ts'

/** A stateless mind: its context is rebuilt from the room at every wake-up. */
export function createStatelessMind(input: MindInput): Mind {
  const { claim, scene, run, tools, scenes, clock } = input
  const guidance = guidanceFor(tools)
  const notice = () => (tools.has('getMyRuns') ? runNotice(claim, scene, clock.now()) : '')
  return {
    async opening(steps) {
      return {
        messages: [{ role: 'user', content: triggerMessageOf(claim, scene) }, ...messagesOf(steps)],
        recorded: 0,
      }
    },
    async plan(step, messages) {
      if (step > 0) await scenes.refresh(claim, scene)
      const activeSpaceId = run.activeSpace?.id ?? null
      return {
        instructions: instructionsOf({ claim, scene, activeSpaceId, guidance, notice: notice() }),
        messages,
        lasting: messages.length,
        ...phaseOf(scene.agent, step, input),
      }
    },
    isDone: () => false,
    async onFailed() {},
  }
}
