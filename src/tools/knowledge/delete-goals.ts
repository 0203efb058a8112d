import type { Goals } from '../../agents/goals.ts'
import type { Tool } from '../tool.ts'
import { missingOf, refusable, textsOf } from './refusals.ts'

/** Removes goals. */
export function deleteGoalsTool(name: string, goals: Goals): Tool {
  return {
    name,
    description:
      'Remove goals of yours, by their ids, that should never have been. One that you reached or gave up is better kept: set its status.',
    inputSchema: {
      type: 'object',
      properties: { ids: { type: 'array', minItems: 1, items: { type: 'string' }, description: 'Ids of YOUR GOALS.' } },
      required: ['ids'],
    },
    presence: { type: 'hidden' },
    execution: null,
    execute({ ids }, { run, carryOut }) {
      const asked = textsOf(ids)
      return carryOut(async (tx, changed) => {
        const deleted = await refusable(() => goals.delete(run.agent.id, asked, { tx, marks: run.claim.run }))
        changed(deleted)
        return { success: true, deleted, notFound: missingOf(asked, deleted) }
      })
    },
  }
}
