import type { MemoryInput } from '../../agents/memories.ts'
import { defineTool } from '../define-tool.ts'
import { missingOf, refusable, textsOf } from './refusals.ts'

/** Stores facts by key, for all later runs. */
export const setMemories = defineTool({
  names: { snake: 'set_memories', camel: 'setMemories' },
  create: ({ parts: { memories } }) => ({
    description:
      'Store facts that you will need later: each of your runs sees them under YOUR MEMORIES. If a key already exists, its value is replaced; other keys do not change.',
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
    execute({ memories: given }, { context: { run }, inTransaction }) {
      return inTransaction(async (tx) => {
        const all = await refusable(() =>
          memories.set(run.agentId, given as unknown as MemoryInput[], { tx, marks: run }),
        )
        return { output: { success: true, keys: all.map(({ key }) => key) } }
      })
    },
  }),
})

/** Deletes facts by key. */
export const deleteMemories = defineTool({
  names: { snake: 'delete_memories', camel: 'deleteMemories' },
  create: ({ parts: { memories } }) => ({
    description: 'Delete stored facts, by their keys, because they are wrong or no longer needed.',
    inputSchema: {
      type: 'object',
      properties: {
        keys: { type: 'array', minItems: 1, items: { type: 'string' }, description: 'Keys of YOUR MEMORIES.' },
      },
      required: ['keys'],
    },
    execute({ keys }, { context: { run }, inTransaction }) {
      const asked = textsOf(keys)
      return inTransaction(async (tx) => {
        const deleted = await refusable(() => memories.delete(run.agentId, asked, { tx, marks: run }))
        return { output: { success: true, deleted, notFound: missingOf(asked, deleted) } }
      })
    },
  }),
})
