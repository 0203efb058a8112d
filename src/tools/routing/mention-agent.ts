import { defineTool, type ToolInput } from '../define-tool.ts'
import { noActiveSpace } from '../space/failures.ts'
import { failIfOver, orFail } from './failures.ts'

/**
 * Gives another agent the next turn after this run has ended. The code that ends the run reads the mention from the
 * journaled result of the call.
 */
export const mentionAgent = defineTool({
  names: { snake: 'mentionAgent', camel: 'mentionAgent' },
  isOffered: isInMentionChain,
  create: ({ place, parts: { delegationChecks } }) => ({
    description:
      'Wake another agent of your active space once this run has ended, to continue the conversation after your message. At most once per run. With expectReply you are woken again when that agent, and all agents that it asks in turn, are done: use it when you need the result to continue.',
    inputSchema: {
      type: 'object',
      properties: {
        targetAgentEntityId: { type: 'string', description: 'Entity id of the agent to wake next.' },
        reason: {
          type: 'string',
          description: 'Why the agent should respond and what you need from it, in a few words.',
        },
        expectReply: {
          type: 'boolean',
          default: false,
          description:
            'True: you are woken again when it has finished, whether it responded or skipped. Default false.',
        },
      },
      required: ['targetAgentEntityId'],
    },
    async execute({ targetAgentEntityId, reason, expectReply = false }, { context }) {
      failIfOver(context)
      const { run } = context
      const activeSpaceId = context.activeSpace?.id ?? null
      const spaceId = place === 'named' ? await delegationChecks.placeOf(run, activeSpaceId) : activeSpaceId
      const asked = { targetId: String(targetAgentEntityId), expectReply: expectReply === true }
      orFail(await delegationChecks.refuseMention({ run, spaceId, ...asked }))
      if (spaceId === null) throw noActiveSpace()
      return {
        output: {
          success: true,
          targetAgentEntityId: asked.targetId,
          spaceId,
          reason: typeof reason === 'string' ? reason : null,
          expectReply: asked.expectReply,
        },
      }
    },
  }),
})

/** Whether the agent belongs to a space with MENTION_CHAIN routing. */
export function isInMentionChain({ scene }: Pick<ToolInput, 'scene'>): boolean {
  return scene.spaces.some(({ routing }) => routing === 'MENTION_CHAIN')
}
