import type { GoalInput, Goals } from '../../agents/goals.ts'
import type { GoalStatus } from '../../generated/prisma/client.ts'
import type { JsonObject } from '../../lib/json.ts'
import type { Tool } from '../tool.ts'
import { missingOf, refusable, textsOf } from './refusals.ts'

/** Adds goals, and changes existing ones. */
export function setGoalsTool(name: string, goals: Goals): Tool {
  return {
    name,
    description:
      'Set what you pursue over many runs: every run of yours sees the active ones under YOUR GOALS. Without an id a goal is added; with the id of one of yours, what you give of it is changed, for instance its status when you are done.',
    inputSchema: {
      type: 'object',
      properties: {
        goals: {
          type: 'array',
          minItems: 1,
          items: {
            type: 'object',
            properties: {
              id: { type: 'string', description: 'Id of a goal of yours to change. Omit to add one.' },
              description: { type: 'string', description: 'What is to be reached. Required for a new goal.' },
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
    presence: { type: 'hidden' },
    execution: null,
    execute({ goals: given }, { run, carryOut }) {
      return carryOut(async (tx, changed) => {
        const written = await refusable(() =>
          goals.set(run.agent.id, (given as JsonObject[]).map(goalInput), { tx, marks: run.claim.run }),
        )
        changed(written.map(({ id }) => id))
        return {
          success: true,
          goals: written.map(({ id, description, status }) => ({ id, description, status: status.toLowerCase() })),
        }
      })
    },
  }
}

function goalInput({ status, ...goal }: JsonObject): GoalInput {
  return { ...goal, status: typeof status === 'string' ? (status.toUpperCase() as GoalStatus) : null }
}

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
