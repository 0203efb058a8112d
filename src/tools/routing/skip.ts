import type { Mind } from '../../generated/prisma/client.ts'
import type { HandingOn } from '../../runs/handing-on.ts'
import type { Tool } from '../tool.ts'
import { failIfOver, orFail } from './failures.ts'

const DESCRIPTIONS: Record<Mind, string> = {
  STATELESS:
    'Stay silent: end this run because you have nothing to add and nobody else to hand it to. Whoever waits for you is told that you skipped.',
  PERSISTENT:
    'Call this first, and alone, when nothing that came into your inbox is for you, because another agent or a human will deal with it. The cycle ends at once: no message is sent, no tool runs, and you will not remember it. Whoever waits for you is told that you skipped.',
}

/** Ends the run because there is nothing for this agent to do. */
export function skipTool(handingOn: Pick<HandingOn, 'refuseSkip'>, mind: Mind): Tool {
  return {
    name: 'skip',
    description: DESCRIPTIONS[mind],
    inputSchema: {
      type: 'object',
      properties: {
        reason: { type: 'string', description: 'Briefly, why. People in a space do not see it.' },
      },
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
