import type { Run } from '../../generated/prisma/client.ts'
import type { HandingOn } from '../../runs/handing-on.ts'
import { noActiveSpace } from '../space/failures.ts'
import type { Tool, ToolScene } from '../tool.ts'
import { failIfOver, orFail } from './failures.ts'

/**
 * Whether `delegateToAgent` is offered: under ADMIN routing, to the admin agent of a space with another
 * agent, in runs that this space triggered. A persistent agent takes such an event alone, so that the trigger
 * of the cycle is what it delegates.
 */
export function isOfferedDelegation(
  { agent, spaces }: ToolScene,
  { triggerSpaceId }: Pick<Run, 'triggerSpaceId'>,
): boolean {
  const space = spaces.find(({ id }) => id === triggerSpaceId)
  if (space === undefined || space.routing !== 'ADMIN' || space.adminAgentId !== agent.id) return false
  return space.members.some(({ id, kind }) => kind === 'AGENT' && id !== agent.id)
}

/**
 * Delegates the trigger of the admin agent's run to another agent, as if it had woken that agent. The admin's
 * run is CANCELED.
 */
export function delegateToAgentTool(handingOn: Pick<HandingOn, 'refuseDelegation'>): Tool {
  return {
    name: 'delegateToAgent',
    description:
      'Hand the message that woke you to another agent of that space, without a word. Your run ends at once and nothing of it is seen; the other agent gets the message as if it had come to it directly. Only before you have said anything in that space.',
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
    presence: { type: 'hidden' },
    execution: null,
    async execute({ targetAgentEntityId }, { run }) {
      failIfOver(run)
      const targetAgentId = String(targetAgentEntityId)
      const { run: row } = run.claim
      const question = { run: row, spaceId: row.triggerSpaceId, targetId: targetAgentId, inChain: false }
      orFail(await handingOn.refuseDelegation(question))
      const { spaceId } = question
      if (spaceId === null) throw noActiveSpace()
      run.ending = { type: 'delegate', targetAgentId, spaceId, reason: null }
      return { success: true, delegatedTo: targetAgentId }
    },
  }
}
