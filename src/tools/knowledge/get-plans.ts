import type { Plans } from '../../plans/plans.ts'
import type { Tool } from '../tool.ts'
import { planEntry } from './set-plans.ts'

/** The agent's plans, those that are over included. */
export function getPlansTool(name: string, plans: Plans): Tool {
  return {
    name,
    description:
      'Look at your plans: when each is next due, and what you are to do then. One that is over is not enabled.',
    inputSchema: { type: 'object', properties: {} },
    presence: { type: 'hidden' },
    execution: null,
    async execute(_, { run }) {
      const own = await plans.listKnown(run.agent.id, run.claim.run)
      return { success: true, plans: own.map(planEntry) }
    },
  }
}
