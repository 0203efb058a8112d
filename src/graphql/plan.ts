import { BadInputError, ConflictError, ForbiddenError, LimitExceededError, NotFoundError } from '../lib/errors.ts'
import { isAdmin } from '../rules/permissions.ts'
import { loadExisting, loadOptional } from './batch.ts'
import { builder } from './builder.ts'
import { connectionOf, idCursorWithin, idPageRequest, sizeOfPage } from './connections.ts'
import { renewed } from './context.ts'
import { Agent, Node, Plan, PlanFiring, Run } from './refs.ts'
import type * as shapes from './shapes.ts'

Plan.implement({
  description: 'Wakes an agent with an instruction, either once or on a schedule.',
  interfaces: [Node],
  fields: (t) => ({
    agent: t.field({
      type: Agent,
      resolve: ({ agentId }, _, { loaders }) => loadExisting(loaders.entities, agentId),
    }),
    name: t.exposeString('name'),
    instruction: t.exposeString('instruction'),
    cron: t.exposeString('cron', {
      nullable: true,
      description: "Five-field cron expression of a recurring plan, in the plan's `timeZone`.",
    }),
    timeZone: t.exposeString('timeZone'),
    nextRunAt: t.field({
      type: 'DateTime',
      nullable: true,
      resolve: ({ enabled, nextRunAt }) => (enabled ? nextRunAt : null),
    }),
    scheduledAt: t.field({
      type: 'DateTime',
      nullable: true,
      description: 'Like `nextRunAt`, but set even while the plan is disabled. Null once a one-time plan has fired.',
      resolve: ({ nextRunAt }) => nextRunAt,
    }),
    nextRuns: t.field({
      type: ['DateTime'],
      description: 'The next times at which the plan fires, at most five. Empty if the plan is disabled.',
      resolve: (plan, _, { domain }) => domain.plans.nextTimesOf(plan),
    }),
    enabled: t.exposeBoolean('enabled'),
    firings: t.connection(
      {
        type: PlanFiring,
        description: "The plan's past firings, newest first.",
        complexity: sizeOfPage(),
        async resolve({ id: parentId }, page, { loaders }) {
          const request = idPageRequest('plf', page, parentId)
          return connectionOf(await loaders.firingPages.load({ parentId, request }), idCursorWithin(parentId))
        },
      },
      { name: 'PlanFiringConnection' },
      { name: 'PlanFiringEdge' },
    ),
  }),
})

const PlanFiringResult = builder.enumType('PlanFiringResult', {
  values: {
    RUN: {},
    INBOX: {},
    STILL_WAITING: {
      description: 'The event of the previous firing is still in the inbox, so no second event was added.',
    },
    PAUSED: {},
    OVER_BUDGET: {},
    LIMIT: {},
  } as const,
})

PlanFiring.implement({
  description: 'One firing of a plan.',
  interfaces: [Node],
  fields: (t) => ({
    id: t.exposeID('id', { description: '`plf_…`' }),
    dueAt: t.field({ type: 'DateTime', description: 'The scheduled time.', resolve: ({ slot }) => slot }),
    firedAt: t.expose('firedAt', { type: 'DateTime' }),
    result: t.expose('result', { type: PlanFiringResult }),
    run: t.field({
      type: Run,
      nullable: true,
      description: 'Null if the firing started no run. For a persistent agent, null until the think cycle starts.',
      resolve: async (firing, _, { loaders }) => loadOptional(loaders.runs, await loaders.firingRuns.load(firing)),
    }),
  }),
})

const PlanScheduleInput = builder.inputType('PlanScheduleInput', {
  isOneOf: true,
  fields: (t) => ({
    cron: t.string({ description: "A cron expression with five fields, evaluated in the plan's `timeZone`." }),
    at: t.field({ type: 'DateTime' }),
    afterSeconds: t.int(),
  }),
})

builder.queryField('nextRuns', (t) =>
  t.field({
    type: ['DateTime'],
    nullable: true,
    description:
      'The next times, at most five, at which a plan with this schedule would fire if it were created now. Null unless the viewer is an admin. If the schedule or the time zone is invalid, a BAD_USER_INPUT error says why.',
    complexity: 5,
    args: {
      schedule: t.arg({ type: PlanScheduleInput, required: true }),
      timeZone: t.arg.string({ description: 'IANA time zone of `cron`. UTC if absent.' }),
    },
    resolve: (_, { schedule, timeZone }, { domain, viewer }) =>
      isAdmin(viewer) ? domain.plans.timesOf(schedule, timeZone ?? null) : null,
  }),
)

const CreatePlanInput = builder.inputType('CreatePlanInput', {
  fields: (t) => ({
    agentId: t.id({ required: true }),
    name: t.string({ required: true }),
    instruction: t.string({ required: true }),
    schedule: t.field({ type: PlanScheduleInput, required: true }),
    timeZone: t.string({ description: 'IANA time zone of `cron`. UTC if absent.' }),
  }),
})

const UpdatePlanInput = builder.inputType('UpdatePlanInput', {
  fields: (t) => ({
    id: t.id({ required: true }),
    instruction: t.string(),
    schedule: t.field({ type: PlanScheduleInput }),
    timeZone: t.string({
      description:
        'IANA time zone of `cron`. If a clock change skips a scheduled time, the plan fires at the next minute that exists. If a scheduled time occurs twice, the plan fires once.',
    }),
    enabled: t.boolean(),
  }),
})

const UpdatePlanPayload = builder.objectRef<{ plan: shapes.Plan }>('UpdatePlanPayload').implement({
  fields: (t) => ({ plan: t.expose('plan', { type: Plan }) }),
})

const RunPlanNowInput = builder.inputType('RunPlanNowInput', { fields: (t) => ({ id: t.id({ required: true }) }) })

const RunPlanNowPayload = builder
  .objectRef<{ planId: string; firing: shapes.PlanFiring }>('RunPlanNowPayload')
  .implement({
    fields: (t) => ({
      plan: t.field({ type: Plan, resolve: ({ planId }, _, { loaders }) => loadExisting(loaders.plansById, planId) }),
      firing: t.expose('firing', { type: PlanFiring }),
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
      const { domain, viewer } = renewed(context)
      return { plan: await domain.plans.create(viewer, input) }
    },
  }),
  updatePlan: t.field({
    type: UpdatePlanPayload,
    description: 'Admins only.',
    errors: { types: [BadInputError, ForbiddenError, NotFoundError, LimitExceededError] },
    args: { input: t.arg({ type: UpdatePlanInput, required: true }) },
    async resolve(_, { input }, context) {
      const { domain, viewer } = renewed(context)
      return { plan: await domain.plans.update(viewer, input) }
    },
  }),
  runPlanNow: t.field({
    type: RunPlanNowPayload,
    description: 'Admins only.',
    errors: {
      types: [ConflictError, ForbiddenError, NotFoundError],
      union: { description: 'ConflictError: the agent is paused.' },
    },
    args: { input: t.arg({ type: RunPlanNowInput, required: true }) },
    async resolve(_, { input: { id } }, context) {
      const { domain, viewer } = renewed(context)
      return { planId: id, firing: await domain.plans.runNow(viewer, { id }) }
    },
  }),
  deletePlan: t.field({
    type: DeletePlanPayload,
    errors: { types: [ForbiddenError, NotFoundError] },
    args: { input: t.arg({ type: DeletePlanInput, required: true }) },
    resolve(_, { input }, context) {
      const { domain, viewer } = renewed(context)
      return domain.plans.delete(viewer, input)
    },
  }),
}))
