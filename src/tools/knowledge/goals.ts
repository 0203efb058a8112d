import type { GoalInput } from '../../agents/goals.ts'
import type { GoalStatus } from '../../generated/prisma/client.ts'
import type { JsonObject } from '../../lib/json.ts'
import { defineTool } from '../define-tool.ts'
import { missingOf, refusable, textsOf } from './refusals.ts'

/** Adds goals and changes existing ones. */
export const setGoals = defineTool({
  names: { snake: 'set_goals', camel: 'setGoals' },
  create: ({ parts: { goals } }) => ({
    description:
      'Set goals that you pursue over many runs. Each of your runs sees the active goals under YOUR GOALS. Without an id, a goal is added. With the id of one of your goals, only the given fields change, for instance the status when you are done.',
    inputSchema: {
      type: 'object',
      properties: {
        goals: {
          type: 'array',
          minItems: 1,
          items: {
            type: 'object',
            properties: {
              id: { type: 'string', description: 'Id of the goal to change, one of YOUR GOALS. Omit to add a goal.' },
              description: { type: 'string', description: 'The goal to reach. Required for a new goal.' },
              status: {
                type: 'string',
                enum: ['active', 'completed', 'abandoned'],
                description: 'Default for a new goal: active.',
              },
            },
          },
        },
      },
      required: ['goals'],
    },
    execute({ goals: given }, { context: { run }, inTransaction }) {
      return inTransaction(async (tx, changed) => {
        const written = await refusable(() =>
          goals.set(run.agentId, (given as JsonObject[]).map(goalInput), { tx, marks: run }),
        )
        changed(written.map(({ id }) => id))
        const entries = written.map(({ id, description, status }) => ({
          id,
          description,
          status: status.toLowerCase(),
        }))
        return { output: { success: true, goals: entries } }
      })
    },
  }),
})

function goalInput({ status, ...goal }: JsonObject): GoalInput {
  return { ...goal, status: typeof status === 'string' ? (status.toUpperCase() as GoalStatus) : null }
}

export const deleteGoals = defineTool({
  names: { snake: 'delete_goals', camel: 'deleteGoals' },
  create: ({ parts: { goals } }) => ({
    description:
      'Remove goals that you set by mistake, by id. Keep goals that you reached or gave up: set their status instead.',
    inputSchema: {
      type: 'object',
      properties: { ids: { type: 'array', minItems: 1, items: { type: 'string' }, description: 'Ids of YOUR GOALS.' } },
      required: ['ids'],
    },
    execute({ ids }, { context: { run }, inTransaction }) {
      const asked = textsOf(ids)
      return inTransaction(async (tx, changed) => {
        const deleted = await refusable(() => goals.delete(run.agentId, asked, { tx, marks: run }))
        changed(deleted)
        return { output: { success: true, deleted, notFound: missingOf(asked, deleted) } }
      })
    },
  }),
})
