import type { HandingOn } from '../../runs/handing-on.ts'
import { noActiveSpace } from '../space/failures.ts'
import type { Tool } from '../tool.ts'
import { failIfOver, orFail } from './failures.ts'

/**
 * Gives another agent the next turn, once this run has ended. The end of the run reads the mention from the
 * call's journaled result.
 */
export function mentionAgentTool(handingOn: HandingOn, namesItsSpaces: boolean): Tool {
  return {
    name: 'mentionAgent',
    description:
      'Wake another agent of your active space once this run has ended, to go on with the conversation after what you said. At most once a run. With expectReply you are woken again when that agent, and all that it asks in turn, is done: use it when you need the outcome to go on.',
    inputSchema: {
      type: 'object',
      properties: {
        targetAgentEntityId: { type: 'string', description: 'Entity id of the agent to wake next.' },
        reason: { type: 'string', description: 'Briefly, why it should respond and what you need of it.' },
        expectReply: {
          type: 'boolean',
          default: false,
          description:
            'True: you are woken again when it has finished, whether it responded or skipped. Default false.',
        },
      },
      required: ['targetAgentEntityId'],
    },
    presence: { type: 'hidden' },
    execution: null,
    async execute({ targetAgentEntityId, reason, expectReply = false }, { run }) {
      failIfOver(run)
      const activeSpaceId = run.activeSpace?.id ?? null
      const spaceId = namesItsSpaces ? await handingOn.placeOf(run.claim.run, activeSpaceId) : activeSpaceId
      const asked = { targetId: String(targetAgentEntityId), expectReply: expectReply === true }
      orFail(await handingOn.refuseMention({ run: run.claim.run, spaceId, ...asked }))
      if (spaceId === null) throw noActiveSpace()
      return {
        success: true,
        targetAgentEntityId: asked.targetId,
        spaceId,
        reason: typeof reason === 'string' ? reason : null,
        expectReply: asked.expectReply,
      }
    },
  }
}
