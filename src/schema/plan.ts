import { BadInputError, ForbiddenError, LimitExceededError, NotFoundError } from '../lib/errors.ts'
import { loadExisting } from './batch.ts'
import { builder } from './builder.ts'
import { renewed } from './context.ts'
import { Agent, Node, Plan } from './refs.ts'
import type * as shapes from './shapes.ts'

Plan.implement({
  interfaces: [Node],
  fields: (t) => ({
    agent: t.field({
      type: Agent,
      resolve: ({ agentId }, _, { loaders }) => loadExisting(loaders.entities, agentId),
    }),
    name: t.exposeString('name'),
    instruction: t.exposeString('instruction'),
    cron: t.exposeString('cron', { nullable: true, description: 'Five-field cron, in UTC, for a recurring plan.' }),
    nextRunAt: t.expose('nextRunAt', { type: 'DateTime', nullable: true }),
    enabled: t.exposeBoolean('enabled'),
  }),
})

const PlanScheduleInput = builder.inputType('PlanScheduleInput', {
  isOneOf: true,
  fields: (t) => ({
    cron: t.string({ description: 'Five fields, UTC.' }),
    at: t.field({ type: 'DateTime' }),
    afterSeconds: t.int(),
  }),
})

const CreatePlanInput = builder.inputType('CreatePlanInput', {
  fields: (t) => ({
    agentId: t.id({ required: true }),
    name: t.string({ required: true }),
    instruction: t.string({ required: true }),
    schedule: t.field({ type: PlanScheduleInput, required: true }),
  }),
})

const CreatePlanPayload = builder.objectRef<{ plan: shapes.Plan }>('CreatePlanPayload').implement({
  fields: (t) => ({ plan: t.expose('plan', { type: Plan }) }),
})

const DeletePlanInput = builder.inputType('DeletePlanInput', { fields: (t) => ({ id: t.id({ required: true }) }) })

const DeletePlanPayload = builder.objectRef<{ deletedPlanId: string }>('DeletePlanPayload').implement({
  fields: (t) => ({ deletedPlanId: t.exposeID('deletedPlanId') }),
})

builder.mutationFields((t) => ({
  createPlan: t.field({
    type: CreatePlanPayload,
    errors: { types: [BadInputError, ForbiddenError, NotFoundError, LimitExceededError] },
    args: { input: t.arg({ type: CreatePlanInput, required: true }) },
    async resolve(_, { input }, context) {
      const { app, viewer } = renewed(context)
      return { plan: await app.plans.create(viewer, input) }
    },
  }),
  deletePlan: t.field({
    type: DeletePlanPayload,
    errors: { types: [ForbiddenError, NotFoundError] },
    args: { input: t.arg({ type: DeletePlanInput, required: true }) },
    resolve(_, { input }, context) {
      const { app, viewer } = renewed(context)
      return app.plans.delete(viewer, input)
    },
  }),
}))
