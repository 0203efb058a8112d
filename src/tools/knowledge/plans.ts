import type { Plan } from '../../generated/prisma/client.ts'
import { BadInputError } from '../../lib/errors.ts'
import type { JsonObject } from '../../lib/json.ts'
import type { PlanInput } from '../../plans/plans.ts'
import { defineTool } from '../define-tool.ts'
import { missingOf, refusable, textsOf } from './refusals.ts'

/** Creates plans, which wake the agent later. */
export const setPlans = defineTool({
  names: { snake: 'set_plans', camel: 'setPlans' },
  create: ({ parts: { plans } }) => ({
    description:
      'Create plans that wake you later: when a plan is due, you get a separate run with its instruction and no active space. Set exactly one of cron, at and afterSeconds for each plan. A plan with an existing name replaces the earlier plan.',
    inputSchema: {
      type: 'object',
      properties: { plans: { type: 'array', minItems: 1, items: PLAN_SCHEMA } },
      required: ['plans'],
    },
    execute({ plans: given }, { context: { run }, inTransaction }) {
      return inTransaction(async (tx, changed) => {
        const written = await refusable(() =>
          plans.setOwn(run.agentId, (given as JsonObject[]).map(planInput), {
            tx,
            rootId: run.rootId,
            provenance: run,
          }),
        )
        changed(written.map(({ id }) => id))
        return { output: { success: true, plans: written.map(planEntry) } }
      })
    },
  }),
})

/** Lists the agent's plans, including past ones. */
export const getPlans = defineTool({
  names: { snake: 'get_plans', camel: 'getPlans' },
  create: ({ parts: { plans } }) => ({
    description: 'List your plans, with the next time and the instruction of each. A finished plan is not enabled.',
    inputSchema: { type: 'object', properties: {} },
    async execute(_, { context: { run } }) {
      const own = await plans.listKnown(run.agentId, run)
      return { output: { success: true, plans: own.map(planEntry) } }
    },
  }),
})

/** Deletes plans. */
export const deletePlans = defineTool({
  names: { snake: 'delete_plans', camel: 'deletePlans' },
  create: ({ parts: { plans } }) => ({
    description: 'Remove some of your plans, by name or id. They will not wake you again.',
    inputSchema: {
      type: 'object',
      properties: {
        names: { type: 'array', minItems: 1, items: { type: 'string' }, description: 'Names or ids of your plans.' },
      },
      required: ['names'],
    },
    execute({ names }, { context: { run }, inTransaction }) {
      const asked = textsOf(names).map((text) => text.trim())
      return inTransaction(async (tx, changed) => {
        const deleted = await refusable(() => plans.deleteOwn(run.agentId, asked, { tx, marks: run }))
        changed(deleted.map(({ id }) => id))
        const found = deleted.flatMap((plan) => [plan.id, plan.name])
        const names = deleted.map((plan) => plan.name)
        return { output: { success: true, deleted: names, notFound: missingOf(asked, found) } }
      })
    },
  }),
})

const PLAN_SCHEMA = {
  type: 'object',
  properties: {
    name: { type: 'string', description: 'The name of the plan, unique among your plans.' },
    instruction: {
      type: 'string',
      description: 'What to do when the plan is due, with all information that you will need.',
    },
    cron: {
      type: 'string',
      description:
        'For a recurring plan: minute, hour, day of month, month, day of week, in UTC, such as "0 6 * * 1-5".',
    },
    at: { type: 'string', description: 'For a one-time plan: the time in UTC, such as "2030-01-31T06:00:00Z".' },
    afterSeconds: { type: 'integer', minimum: 1, description: 'For a one-time plan: the number of seconds from now.' },
  },
  required: ['name', 'instruction'],
}

/** A plan as the model sees it. */
function planEntry({ id, name, instruction, cron, timeZone, nextRunAt, enabled }: Plan): JsonObject {
  const zone: JsonObject = timeZone === 'UTC' ? {} : { timeZone }
  return { id, name, instruction, cron, ...zone, nextRunAt: nextRunAt?.toISOString() ?? null, enabled }
}

/**
 * Matches a date, or a time with an offset. A time without an offset would be interpreted in this machine's time
 * zone.
 */
const INSTANT = /^\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:\d{2}))?$/

function planInput({ at, ...plan }: JsonObject, index: number): PlanInput {
  const input = plan as unknown as PlanInput
  if (at == null) return input
  const time = INSTANT.test(String(at)) ? Date.parse(String(at)) : Number.NaN
  if (Number.isNaN(time)) {
    throw new BadInputError(
      'Give a time with its offset from UTC, such as "2030-01-31T06:00:00Z".',
      `plans.${index}.at`,
    )
  }
  return { ...input, at: new Date(time) }
}
