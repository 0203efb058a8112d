import { ConflictError, ForbiddenError, NotFoundError } from '../lib/errors.ts'
import { loadExisting } from './batch.ts'
import { builder } from './builder.ts'
import { changedAgentPayload } from './changed-agent.ts'
import { renewed } from './context.ts'
import { Agent } from './refs.ts'

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

const ForgetCycleInput = builder.inputType('ForgetCycleInput', {
  fields: (t) => ({ cycleId: t.id({ required: true }) }),
})

const ForgetCyclePayload = builder.objectRef<{ cycleId: string; agentId: string }>('ForgetCyclePayload').implement({
  fields: (t) => ({
    forgottenCycleId: t.exposeID('cycleId'),
    agent: t.field({ type: Agent, resolve: ({ agentId }, _, { loaders }) => loadExisting(loaders.entities, agentId) }),
  }),
})

const ForgetSpaceInput = builder.inputType('ForgetSpaceInput', {
  fields: (t) => ({ agentId: t.id({ required: true }), spaceId: t.id({ required: true }) }),
})

builder.mutationFields((t) => ({
  forgetCycle: t.field({
    type: ForgetCyclePayload,
    description: "Admins only. Removes one cycle from an agent's consciousness.",
    errors: { types: [ForbiddenError, NotFoundError] },
    args: { input: t.arg({ type: ForgetCycleInput, required: true }) },
    resolve(_, { input }, context) {
      const { domain, viewer } = renewed(context)
      return domain.forgetting.forgetCycle(viewer, input)
    },
  }),
  forgetSpace: t.field({
    type: changedAgentPayload('ForgetSpacePayload'),
    description:
      'Admins only. Deletes the cycles, memories, goals, plans and inbox events that an agent stored from what it read directly in one space. Applies to confidential and other spaces.',
    errors: { types: [ForbiddenError, NotFoundError] },
    args: { input: t.arg({ type: ForgetSpaceInput, required: true }) },
    resolve(_, { input }, context) {
      const { domain, viewer } = renewed(context)
      return domain.forgetting.forgetSpace(viewer, input)
    },
  }),
  removeInboxEvent: t.field({
    type: RemoveInboxEventPayload,
    description:
      "Admins only. Removes an event from an agent's inbox before a cycle processes it. ConflictError: a cycle has already claimed the event.",
    errors: { types: [ForbiddenError, NotFoundError, ConflictError] },
    args: { input: t.arg({ type: RemoveInboxEventInput, required: true }) },
    async resolve(_, { input }, context) {
      const { domain, viewer } = renewed(context)
      const { id } = await domain.minds.removeInboxEvent(viewer, input)
      return { removedInboxEventId: id }
    },
  }),
  resetConsciousness: t.field({
    type: changedAgentPayload('ResetConsciousnessPayload'),
    description: "Admins only. Empties the agent's consciousness. Past cycles stay visible as runs.",
    errors: { types: [ForbiddenError, NotFoundError] },
    args: { input: t.arg({ type: ResetConsciousnessInput, required: true }) },
    resolve(_, { input }, context) {
      const { domain, viewer } = renewed(context)
      return domain.minds.resetConsciousness(viewer, input)
    },
  }),
}))
