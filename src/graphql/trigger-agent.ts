import {
  BadInputError,
  ConflictError,
  ForbiddenError,
  LimitExceededError,
  NotFoundError,
  RateLimitedError,
} from '../lib/errors.ts'
import { builder } from './builder.ts'
import { renewed, takeRate } from './context.ts'
import { Run } from './refs.ts'
import type * as shapes from './shapes.ts'

const TriggerAgentInput = builder.inputType('TriggerAgentInput', {
  fields: (t) => ({
    agentId: t.id({ required: true }),
    serviceName: t.string({
      description: "Required if the viewer is an admin. With a SERVICE token, the token's name is used.",
    }),
    payload: t.field({ type: 'JSON', required: true }),
    urgent: t.boolean(),
    idempotencyKey: t.string(),
  }),
})

const TriggerAgentPayload = builder.objectRef<{ run: shapes.Run | null }>('TriggerAgentPayload').implement({
  description: '`run` is null if the trigger went to the inbox of a persistent agent.',
  fields: (t) => ({ run: t.expose('run', { type: Run, nullable: true }) }),
})

builder.mutationField('triggerAgent', (t) =>
  t.field({
    type: TriggerAgentPayload,
    errors: {
      types: [BadInputError, ConflictError, ForbiddenError, LimitExceededError, NotFoundError, RateLimitedError],
    },
    args: { input: t.arg({ type: TriggerAgentInput, required: true }) },
    async resolve(_, { input }, context) {
      await takeRate(context, 'triggers')
      const { domain, viewer, loaders } = renewed(context)
      const { run } = await domain.control.triggerAgent(viewer, input)
      const [seen] = await loaders.seenRuns(run === null ? [] : [run])
      return { run: seen ?? null }
    },
  }),
)
