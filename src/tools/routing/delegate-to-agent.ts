import { defineTool, type ToolInput } from '../define-tool.ts'
import { noActiveSpace } from '../space/failures.ts'
import { failIfOver, orFail } from './failures.ts'

/**
 * Whether `delegateToAgent` is offered: under ADMIN routing, to the admin agent of a space with another agent, in runs
 * that this space triggered. A persistent agent processes such an event in a cycle of its own, so that the cycle's
 * trigger is the one to delegate.
 */
function mayDelegate({ scene: { agent, spaces }, run }: ToolInput): boolean {
  const space = spaces.find(({ id }) => id === run.triggerSpaceId)
  if (space === undefined || space.routing !== 'ADMIN' || space.adminAgentId !== agent.id) return false
  return space.members.some(({ id, kind }) => kind === 'AGENT' && id !== agent.id)
}

/**
 * Delegates the trigger of the admin agent's run to another agent, as if it had woken that agent. The admin's
 * run is CANCELED.
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
