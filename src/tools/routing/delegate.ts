import type { HandingOn } from '../../runs/handing-on.ts'
import type { Tool } from '../tool.ts'
import { failIfOver, orFail } from './handing-on.ts'

/** Hands the run's trigger to another agent without a word: the run is CANCELED, the other takes its place in the chain. */
export function delegateTool(handingOn: HandingOn, namesItsSpaces: boolean): Tool {
  return {
    name: 'delegate',
    description:
      'Hand this over to another agent of your active space without saying anything, because it is the one who should deal with it. Your run ends at once, nothing of it is posted, and whoever waits for you waits for that agent instead. Not possible once you have said something here: then use mentionAgent.',
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
      const activeSpaceId = run.activeSpace?.id ?? null
      const spaceId = namesItsSpaces ? await handingOn.placeOf(run.claim.run, activeSpaceId) : activeSpaceId
      const targetAgentId = String(targetAgentEntityId)
      orFail(await handingOn.refuseDelegation({ run: run.claim.run, spaceId, targetId: targetAgentId, inChain: true }))
      run.ending = { type: 'delegate', targetAgentId, reason: typeof reason === 'string' ? reason : null }
      return { success: true, delegatedTo: targetAgentId }
    },
  }
}
