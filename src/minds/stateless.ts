import type { ModelMessage } from 'ai'
import { messagesOf } from '../runs/conversation.ts'
import type { JournaledStep } from '../runs/journal.ts'
import { guidanceFor } from './guidance.ts'
import { type Mind, type MindInput, phaseOf } from './mind.ts'
import { instructionsOf, triggerMessageOf } from './prompt.ts'
import { runNotice } from './run-notice.ts'

/** A stateless mind: its context is rebuilt from the room at every wake-up. */
export function createStatelessMind(input: MindInput): Mind {
  const { claim, scene, run, tools, scenes } = input
  const guidance = guidanceFor(tools)
  const notice = () => (tools.has('getMyRuns') ? runNotice(claim, scene) : '')
  let opening: ModelMessage | null = null
  return {
    async plan(steps) {
      // Also at the first step of a run that was taken up: calls that were left to it have been carried out since it was loaded.
      if (steps.length > 0) await scenes.refresh(claim, scene)
      opening ??= openingOf(steps) ?? { role: 'user', content: triggerMessageOf(claim, scene) }
      const activeSpaceId = run.activeSpace?.id ?? null
      return {
        instructions: instructionsOf({ claim, scene, activeSpaceId, guidance, notice: notice() }),
        messages: [opening, ...messagesOf(steps)],
        added: steps.length === 0 ? 1 : 0,
        ...phaseOf(scene.agent, steps.length, input),
      }
    },
    isDone: () => false,
    async onFailed() {},
  }
}

/** What the run was shown first, as the journal has it: what triggered it stays as it was, wherever the run has gone since. */
function openingOf(steps: JournaledStep[]): ModelMessage | null {
  const [opening] = (steps[0]?.step.messagesAdded ?? []) as unknown as ModelMessage[]
  return opening ?? null
}
