import { defineTool } from '../define-tool.ts'
import { noActiveSpace } from '../space/failures.ts'
import { failIfOver, orFail } from './failures.ts'
import { isInMentionChain } from './mention-agent.ts'

/**
 * Delegates the run's trigger to another agent without posting. The run becomes CANCELED, and the other agent takes
 * its turn in the chain.
 */
export const delegate = defineTool({
  names: { snake: 'delegate', camel: 'delegate' },
  isOffered: isInMentionChain,
  create: ({ place, parts: { delegationChecks } }) => ({
    description:
      'Delegate your trigger to another agent of your active space without posting, because that agent should handle it. Your run ends at once without posting, and agents that wait for you wait for that agent instead. Not possible after you have posted here; use mentionAgent in that case.',
    inputSchema: {
      type: 'object',
      properties: {
        targetAgentEntityId: { type: 'string', description: 'Entity id of the agent that takes over.' },
        reason: {
          type: 'string',
          description: 'The reason why you chose that agent, in a few words. The agent sees it.',
        },
      },
      required: ['targetAgentEntityId'],
    },
    async execute({ targetAgentEntityId, reason: given }, { context }) {
      failIfOver(context)
      const { run } = context
      const { id: activeSpaceId = null } = context.activeSpace ?? {}
      // Runs with SPACE_TOOLS never enter a space.
      const spaceId =
        place === 'named'
          ? (run.triggerSpaceId ?? (await delegationChecks.placeOf(run, activeSpaceId)))
          : (activeSpaceId ?? run.triggerSpaceId)
      const targetAgentId = String(targetAgentEntityId)
      orFail(await delegationChecks.refuseDelegation({ run, spaceId, targetId: targetAgentId, inChain: true }))
      if (spaceId === null) throw noActiveSpace()
      const reason = typeof given === 'string' ? given : null
      return {
        output: { success: true, delegatedTo: targetAgentId },
        effects: { ending: { type: 'delegate', targetAgentId, spaceId, reason } },
      }
    },
  }),
})
