import type { Memories, MemoryInput } from '../../agents/memories.ts'
import type { Tool } from '../tool.ts'
import { refusable } from './refusals.ts'

/** Writes down facts by key, for every later run. */
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
