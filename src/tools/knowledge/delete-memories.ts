import type { Memories } from '../../agents/memories.ts'
import type { Tool } from '../tool.ts'
import { missingOf, refusable, textsOf } from './refusals.ts'

/** Forgets facts by key. */
export function deleteMemoriesTool(name: string, memories: Memories): Tool {
  return {
    name,
    description: 'Forget facts that you wrote down, by their keys, because they are wrong or no longer needed.',
    inputSchema: {
      type: 'object',
      properties: {
        keys: { type: 'array', minItems: 1, items: { type: 'string' }, description: 'Keys of YOUR MEMORIES.' },
      },
      required: ['keys'],
    },
    presence: { type: 'hidden' },
    execution: null,
    execute({ keys }, { run, carryOut }) {
      const asked = textsOf(keys)
      return carryOut(async (tx) => {
        const deleted = await refusable(() => memories.delete(run.agent.id, asked, { tx, marks: run.claim.run }))
        return { success: true, deleted, notFound: missingOf(asked, deleted) }
      })
    },
  }
}
