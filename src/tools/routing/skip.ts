import type { Tool } from '../tool.ts'
import { failIfOver, type HandingOn, orFail } from './handing-on.ts'

/** Ends the run because there is nothing for this agent to do. */
export function skipTool(handingOn: Pick<HandingOn, 'refuseSkip'>): Tool {
  return {
    name: 'skip',
    description:
      'Stay silent: end this run because you have nothing to add and nobody else to hand it to. Whoever waits for you is told that you skipped.',
    inputSchema: {
      type: 'object',
      properties: { reason: { type: 'string', description: 'Briefly, why. Not posted.' } },
    },
    presence: { type: 'hidden' },
    execution: null,
    async execute({ reason }, { run }) {
      failIfOver(run)
      orFail(await handingOn.refuseSkip(run.claim.run))
      run.ending = { type: 'skip', reason: typeof reason === 'string' ? reason : null }
      return { success: true }
    },
  }
}
