import { ConflictError, ForbiddenError, NotFoundError } from '../lib/errors.ts'
import { builder } from './builder.ts'
import { changedAgentPayload } from './changed-agent.ts'
import { renewed } from './context.ts'

const RemoveInboxEventInput = builder.inputType('RemoveInboxEventInput', {
  fields: (t) => ({ id: t.id({ required: true }) }),
})

const RemoveInboxEventPayload = builder
  .objectRef<{ removedInboxEventId: string }>('RemoveInboxEventPayload')
  .implement({
    fields: (t) => ({ removedInboxEventId: t.exposeID('removedInboxEventId') }),
  })

const ResetConsciousnessInput = builder.inputType('ResetConsciousnessInput', {
  fields: (t) => ({ agentId: t.id({ required: true }) }),
})

builder.mutationFields((t) => ({
  removeInboxEvent: t.field({
    type: RemoveInboxEventPayload,
    description:
      'For admins: takes an event out of an inbox, which is then not thought about. ConflictError: a cycle has it already.',
    errors: { types: [ForbiddenError, NotFoundError, ConflictError] },
    args: { input: t.arg({ type: RemoveInboxEventInput, required: true }) },
    async resolve(_, { input }, context) {
      const { app, viewer } = renewed(context)
      const { id } = await app.minds.removeInboxEvent(viewer, input)
      return { removedInboxEventId: id }
    },
  }),
  resetConsciousness: t.field({
    type: changedAgentPayload('ResetConsciousnessPayload'),
    description: 'For admins: the mind begins anew. What it thought until now stays on record in its runs.',
    errors: { types: [ForbiddenError, NotFoundError] },
    args: { input: t.arg({ type: ResetConsciousnessInput, required: true }) },
    resolve(_, { input }, context) {
      const { app, viewer } = renewed(context)
      return app.minds.resetConsciousness(viewer, input)
    },
  }),
}))
