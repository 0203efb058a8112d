import type { Plans } from '../../plans/plans.ts'
import type { Tool } from '../tool.ts'
import { missingOf, refusable, textsOf } from './refusals.ts'

/** Removes plans: they wake the agent no more. */
export function deletePlansTool(name: string, plans: Plans): Tool {
  return {
    name,
    description: 'Remove plans of yours, by their names or ids: they will not wake you again.',
    inputSchema: {
      type: 'object',
      properties: {
        names: { type: 'array', minItems: 1, items: { type: 'string' }, description: 'Names or ids of your plans.' },
      },
      required: ['names'],
    },
    presence: { type: 'hidden' },
    execution: null,
    execute({ names }, { run, carryOut }) {
      const asked = textsOf(names).map((text) => text.trim())
      return carryOut(async (tx, changed) => {
        const deleted = await refusable(() => plans.deleteOwn(run.agent.id, asked, { tx, marks: run.claim.run }))
        changed(deleted.map(({ id }) => id))
        const found = deleted.flatMap((plan) => [plan.id, plan.name])
        return { success: true, deleted: deleted.map((plan) => plan.name), notFound: missingOf(asked, found) }
      })
    },
  }
}
