import type { Memories, MemoryInput } from '../../agents/memories.ts'
import type { Tool } from '../tool.ts'
import { missingOf, refusable, textsOf } from './refusals.ts'

/** Stores facts by key, for all later runs. */
export function setMemoriesTool(name: string, memories: Memories): Tool {
  return {
    name,
    description:
      'Write down facts that you will need later: every run of yours sees them under YOUR MEMORIES. A key that you have used before gets the new value; other keys stay.',
    inputSchema: {
      type: 'object',
      properties: {
        memories: {
          type: 'array',
          minItems: 1,
          items: {
            type: 'object',
            properties: {
              key: { type: 'string', description: 'A short name of the fact, such as "preferred_language".' },
              value: { type: 'string', description: 'The fact.' },
            },
            required: ['key', 'value'],
          },
        },
      },
      required: ['memories'],
    },
    presence: { type: 'hidden' },
    execution: null,
    execute({ memories: given }, { run, carryOut }) {
      return carryOut(async (tx) => {
        const all = await refusable(() =>
          memories.set(run.agent.id, given as unknown as MemoryInput[], { tx, marks: run.claim.run }),
        )
        return { success: true, keys: all.map(({ key }) => key) }
      })
    },
  }
}

/** Deletes facts by key. */
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
