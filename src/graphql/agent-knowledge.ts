import { BadInputError, ConflictError, ForbiddenError, LimitExceededError, NotFoundError } from '../lib/errors.ts'
import { builder } from './builder.ts'
import { changedAgentPayload } from './changed-agent.ts'
import { renewed } from './context.ts'
import { GoalStatusType } from './enums.ts'

const MemoryInput = builder.inputType('MemoryInput', {
  fields: (t) => ({ key: t.string({ required: true }), value: t.string({ required: true }) }),
})

const SetMemoriesInput = builder.inputType('SetMemoriesInput', {
  fields: (t) => ({ agentId: t.id({ required: true }), memories: t.field({ type: [MemoryInput], required: true }) }),
})

const DeleteMemoriesInput = builder.inputType('DeleteMemoriesInput', {
  fields: (t) => ({ agentId: t.id({ required: true }), keys: t.stringList({ required: true }) }),
})

const GoalInput = builder.inputType('GoalInput', {
  description:
    'Without `id`, the input creates a goal, and `description` is required. With `id`, it changes the given fields of that goal.',
  fields: (t) => ({ id: t.id(), description: t.string(), status: t.field({ type: GoalStatusType }) }),
})

const SetGoalsInput = builder.inputType('SetGoalsInput', {
  fields: (t) => ({ agentId: t.id({ required: true }), goals: t.field({ type: [GoalInput], required: true }) }),
})

const DeleteGoalsInput = builder.inputType('DeleteGoalsInput', {
  fields: (t) => ({ agentId: t.id({ required: true }), ids: t.idList({ required: true }) }),
})

const ConfirmMcpToolsInput = builder.inputType('ConfirmMcpToolsInput', {
  fields: (t) => ({ agentId: t.id({ required: true }), serverName: t.string({ required: true }) }),
})

const ConfirmAgentCardInput = builder.inputType('ConfirmAgentCardInput', {
  fields: (t) => ({
    agentId: t.id({ required: true }),
    fingerprint: t.string({
      required: true,
      description:
        'The `fingerprint` of the card to confirm. ConflictError if the server has read a different card since then.',
    }),
  }),
})

const SETTING = { types: [BadInputError, ForbiddenError, NotFoundError, LimitExceededError] }
const DELETING = { types: [ForbiddenError, NotFoundError] }

builder.mutationFields((t) => ({
  setMemories: t.field({
    type: changedAgentPayload('SetMemoriesPayload'),
    description:
      'Admins only. Writes the given memories of an agent. Other memories do not change, including those that the agent writes at the same time.',
    errors: SETTING,
    args: { input: t.arg({ type: SetMemoriesInput, required: true }) },
    async resolve(_, { input }, context) {
      const { domain, viewer } = renewed(context)
      await domain.memories.setAs(viewer, input)
      return input
    },
  }),
  deleteMemories: t.field({
    type: changedAgentPayload('DeleteMemoriesPayload'),
    description: 'Admins only. Deletes memories of an agent by key.',
    errors: DELETING,
    args: { input: t.arg({ type: DeleteMemoriesInput, required: true }) },
    async resolve(_, { input }, context) {
      const { domain, viewer } = renewed(context)
      await domain.memories.deleteAs(viewer, input)
      return input
    },
  }),
}))

builder.mutationFields((t) => ({
  setGoals: t.field({
    type: changedAgentPayload('SetGoalsPayload'),
    description: 'Admins only. Adds goals to an agent, or changes the given fields of existing goals.',
    errors: SETTING,
    args: { input: t.arg({ type: SetGoalsInput, required: true }) },
    async resolve(_, { input }, context) {
      const { domain, viewer } = renewed(context)
      await domain.goals.setAs(viewer, input)
      return input
    },
  }),
  deleteGoals: t.field({
    type: changedAgentPayload('DeleteGoalsPayload'),
    description: "Admins only. Deletes some of an agent's goals.",
    errors: DELETING,
    args: { input: t.arg({ type: DeleteGoalsInput, required: true }) },
    async resolve(_, { input }, context) {
      const { domain, viewer } = renewed(context)
      await domain.goals.deleteAs(viewer, input)
      return input
    },
  }),
  confirmMcpTools: t.field({
    type: changedAgentPayload('ConfirmMcpToolsPayload'),
    description:
      "Admins only. Accepts the current tool definitions of an agent's MCP server. If a definition has changed since it was last accepted, the tool is not offered to the model until an admin accepts the change.",
    errors: DELETING,
    args: { input: t.arg({ type: ConfirmMcpToolsInput, required: true }) },
    async resolve(_, { input }, context) {
      const { domain, viewer } = renewed(context)
      await domain.mcpServers.confirm(viewer, input)
      return input
    },
  }),
  confirmAgentCard: t.field({
    type: changedAgentPayload('ConfirmAgentCardPayload'),
    description:
      'Admins only. Trusts the agent card with this fingerprint, which describes an agent on another server. If a card has changed since it was trusted, nothing is sent to its agent until an admin trusts the new card.',
    errors: { types: [ForbiddenError, NotFoundError, ConflictError] },
    args: { input: t.arg({ type: ConfirmAgentCardInput, required: true }) },
    async resolve(_, { input }, context) {
      const { domain, viewer } = renewed(context)
      await domain.remoteCards.confirmCard(viewer, input)
      return input
    },
  }),
}))
