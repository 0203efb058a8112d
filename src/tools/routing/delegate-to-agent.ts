import { defineTool, type ToolInput } from '../define-tool.ts'
import { noActiveSpace } from '../space/failures.ts'
import { failIfOver, orFail } from './failures.ts'

/**
 * Whether the run gets `delegateToAgent`. The run must belong to the admin agent of a space with ADMIN routing and
 * another agent, and this space must have triggered the run. A persistent agent processes such an event in a
 * separate cycle, so that delegating the cycle's trigger delegates only this event.
 */
function mayDelegate({ scene: { agent, spaces }, run }: ToolInput): boolean {
  const space = spaces.find(({ id }) => id === run.triggerSpaceId)
  if (space === undefined || space.routing !== 'ADMIN' || space.adminAgentId !== agent.id) return false
  return space.members.some(({ id, kind }) => kind === 'AGENT' && id !== agent.id)
}

/**
 * Delegates the trigger of the admin agent's run to another agent, which wakes as if the trigger had woken it
 * directly. The admin's run becomes CANCELED.
 */
export const delegateToAgent = defineTool({
  names: { snake: 'delegateToAgent', camel: 'delegateToAgent' },
  isOffered: mayDelegate,
  create: ({ parts: { delegationChecks } }) => ({
    description:
      'Delegate the message that woke you to another agent of that space, without posting. Your run ends at once and nobody sees anything of it, and the other agent gets the message as if it had been woken by the message directly. Possible only before you have posted anything in that space.',
    inputSchema: {
      type: 'object',
      properties: {
        targetAgentEntityId: {
          type: 'string',
          description: 'Id of the agent that takes over: a member of the space that woke you.',
        },
      },
      required: ['targetAgentEntityId'],
    },
    async execute({ targetAgentEntityId }, { context }) {
      failIfOver(context)
      const targetAgentId = String(targetAgentEntityId)
      const { run } = context
      const question = { run, spaceId: run.triggerSpaceId, targetId: targetAgentId, inChain: false }
      orFail(await delegationChecks.refuseDelegation(question))
      const { spaceId } = question
      if (spaceId === null) throw noActiveSpace()
      return {
        output: { success: true, delegatedTo: targetAgentId },
        effects: { ending: { type: 'delegate', targetAgentId, spaceId, reason: null } },
      }
    },
  }),
})
