import type { HandingOn } from '../../runs/handing-on.ts'
import { noActiveSpace } from '../space/failures.ts'
import type { Tool } from '../tool.ts'
import { failIfOver, orFail } from './failures.ts'

/**
 * Delegates the run's trigger to another agent without posting: the run is CANCELED, and the other agent
 * takes its turn in the chain.
 */
export function delegateTool(handingOn: HandingOn, namesItsSpaces: boolean): Tool {
  return {
    name: 'delegate',
    description:
      'Hand what woke you over to another agent of your active space without saying anything, because it is the one who should deal with it. Your run ends at once, nothing of it is posted, and whoever waits for you waits for that agent instead. Not possible once you have said something here: then use mentionAgent.',
    inputSchema: {
      type: 'object',
      properties: {
        targetAgentEntityId: { type: 'string', description: 'Entity id of the agent that takes over.' },
        reason: { type: 'string', description: 'Briefly, why that agent: it is told.' },
      },
      required: ['targetAgentEntityId'],
    },
    presence: { type: 'hidden' },
    execution: null,
    async execute({ targetAgentEntityId, reason }, { run }) {
      failIfOver(run)
      const { run: row } = run.claim
      const { id: activeSpaceId = null } = run.activeSpace ?? {}
      // An agent that names its spaces enters none.
      const spaceId = namesItsSpaces
        ? (row.triggerSpaceId ?? (await handingOn.placeOf(row, activeSpaceId)))
        : (activeSpaceId ?? row.triggerSpaceId)
      const targetAgentId = String(targetAgentEntityId)
      orFail(await handingOn.refuseDelegation({ run: row, spaceId, targetId: targetAgentId, inChain: true }))
      if (spaceId === null) throw noActiveSpace()
      run.ending = { type: 'delegate', targetAgentId, spaceId, reason: typeof reason === 'string' ? reason : null }
      return { success: true, delegatedTo: targetAgentId }
    },
  }
}
