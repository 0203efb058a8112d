import { BadInputError, ForbiddenError, LimitExceededError, NotFoundError } from '../lib/errors.ts'
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
  description: 'Without `id` a new goal, which needs a description; with it, what changes of that goal.',
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

const SETTING = { types: [BadInputError, ForbiddenError, NotFoundError, LimitExceededError] }
const DELETING = { types: [ForbiddenError, NotFoundError] }

builder.mutationFields((t) => ({
  setMemories: t.field({
    type: changedAgentPayload('SetMemoriesPayload'),
    description:
      "For admins: writes memories of an agent, key by key; others stay, the agent's own writing at the same time too.",
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
    description: 'For admins: removes memories of an agent by their keys.',
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
    description: 'For admins: adds goals to an agent, and changes those that are named, field by field.',
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
    description: 'For admins: removes goals of an agent.',
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
      "For admins: trusts the tools of an agent's MCP server as they are defined now. Tools whose definition changed after their first use are refused until then.",
    errors: DELETING,
    args: { input: t.arg({ type: ConfirmMcpToolsInput, required: true }) },
    async resolve(_, { input }, context) {
      const { domain, viewer } = renewed(context)
      await domain.mcpServers.confirm(viewer, input)
      return input
    },
  }),
}))
