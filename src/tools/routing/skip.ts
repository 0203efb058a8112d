import type { Mind } from '../../generated/prisma/client.ts'
import { defineTool } from '../define-tool.ts'
import type { ToolScene } from '../tool.ts'
import { failIfOver, orFail } from './failures.ts'

const DESCRIPTIONS: Record<Mind, string> = {
  STATELESS:
    'Stay silent: end this run because you have nothing to add and no other agent should handle it. Agents that wait for you are notified that you skipped.',
  PERSISTENT:
    'Call this first, and alone, when no event in your inbox is for you, because another agent or a human will handle it. The cycle ends at once: no message is sent, no tool runs, and you will not remember it. Agents that wait for you are notified that you skipped.',
}

/** Whether the space has members besides the agent and one human. */
const hasOthers = ({ size, members }: ToolScene['spaces'][number]): boolean =>
  size > 2 || members.filter(({ kind }) => kind === 'AGENT').length > 1

/** Ends the run because the agent has nothing to do. Runs of persistent agents always get this tool. */
export const skip = defineTool({
  names: { snake: 'skip', camel: 'skip' },
  isOffered: ({ scene }) => scene.agent.mind === 'PERSISTENT' || scene.spaces.some(hasOthers),
  create: ({ scene, parts: { delegationChecks } }) => ({
    description: DESCRIPTIONS[scene.agent.mind],
    inputSchema: {
      type: 'object',
      properties: {
        reason: {
          type: 'string',
          description: 'The reason, in a few words. People who can see the message may see it.',
        },
      },
    },
    async execute({ reason }, { context }) {
      failIfOver(context)
      orFail(await delegationChecks.refuseSkip(context.run))
      const ending = { type: 'skip' as const, reason: typeof reason === 'string' ? reason : null }
      return { output: { success: true }, effects: { ending } }
    },
  }),
})
