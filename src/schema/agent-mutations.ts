import { BadInputError, ForbiddenError, LimitExceededError, NotFoundError } from '../lib/errors.ts'
import { ApprovalPolicyInput } from './approval-policy.ts'
import { BudgetInput } from './budget.ts'
import { builder } from './builder.ts'
import { renewed } from './context.ts'
import { AddableByType, MindType, ToolChoiceType, ToolExecutionType, ToolsetType } from './enums.ts'
import { Agent } from './refs.ts'
import type * as shapes from './shapes.ts'

const ToolInput = builder.inputType('ToolInput', {
  fields: (t) => ({
    name: t.string({ required: true }),
    description: t.string({ required: true }),
    inputSchema: t.field({ type: 'JSON', required: true }),
    execution: t.field({ type: ToolExecutionType, required: true }),
    visible: t.boolean({
      description: 'Absent: true for SPACE, for which false is refused; false for the others.',
    }),
    timeoutMs: t.int({
      description: 'Absent: 30000 for HTTP, `PARLEY_TOOL_WAIT_SECONDS` for SPACE and EXTERNAL.',
    }),
    url: t.string(),
    approval: t.field({ type: ApprovalPolicyInput }),
    resultSchema: t.field({
      type: 'JSON',
      description:
        'JSON Schema of what is submitted as the result of a SPACE or EXTERNAL call: checked, BadInputError. Absent: anything goes.',
    }),
    mayReceiveConfidential: t.boolean({
      required: true,
      defaultValue: false,
      description: 'May be given what comes from confidential spaces, though it leaves the server.',
    }),
    headers: t.field({
      type: 'JSON',
      description:
        'HTTP request headers, name to value. Kept encrypted, never returned. Absent in an update: those of the tool of the same name stay; null removes them.',
    }),
  }),
})

const ToolPhaseInput = builder.inputType('ToolPhaseInput', {
  fields: (t) => ({
    fromStep: t.int({ required: true }),
    model: t.string(),
    modelSettings: t.field({ type: 'JSON', description: "Each takes the place of the agent's own." }),
    activeTools: t.stringList(),
    toolChoice: t.field({ type: ToolChoiceType, required: true, defaultValue: 'AUTO' }),
  }),
})

const CycleSettingsInput = builder.inputType('CycleSettingsInput', {
  description: 'Absent fields: 100000, 10, true, true, none, false; in an update they stay as they are.',
  fields: (t) => ({
    maxConsciousnessTokens: t.int(),
    minRecentCycles: t.int(),
    inboxPreview: t.boolean(),
    urgentInjection: t.boolean(),
    urgentFrom: t.idList(),
    stopWhenAllAnswered: t.boolean(),
  }),
})

const McpServerInput = builder.inputType('McpServerInput', {
  fields: (t) => ({
    name: t.string({ required: true }),
    url: t.string({ required: true }),
    headers: t.field({ type: 'JSON', description: 'As for ToolInput.' }),
    allowedTools: t.stringList(),
    approval: t.field({
      type: ApprovalPolicyInput,
      description:
        'For every tool of this server, or for `approvalTools` alone: names as the server gives them; BadInputError without `approval`.',
    }),
    approvalTools: t.stringList(),
    mayReceiveConfidential: t.boolean({
      required: true,
      defaultValue: false,
      description: 'As for tools: all of its tools, or `confidentialTools` alone.',
    }),
    confidentialTools: t.stringList(),
  }),
})

type InputFields = Parameters<Parameters<typeof builder.inputType>[1]['fields']>[0]

const fallbackModels = (t: InputFields) =>
  t.stringList({
    description: "Tried in order where the model's provider fails before anything of its answer was shown.",
  })

const modelSettings = (t: InputFields) =>
  t.field({
    type: 'JSON',
    description: 'temperature, topP, reasoningEffort, maxOutputTokens, serviceTier; checked.',
  })

const notifyUrl =
  'Told by signed POSTs (Standard Webhooks) of calls that wait, are claimed, escalated and decided: `{ type: "tool_call.waiting" | …claimed | …escalated | …decided, timestamp, data: { toolCallId, toolName, agentId, runId, spaceId, state, expiresAt } }`, never inputs or reasons.'

const CreateAgentInput = builder.inputType('CreateAgentInput', {
  description:
    'Absent: model `PARLEY_DEFAULT_MODEL`, maxSteps 20, tokenBudget none (50000 for a PERSISTENT mind), maxConcurrentRuns 5.',
  fields: (t) => ({
    name: t.string({ required: true }),
    description: t.string(),
    instructions: t.string({ required: true }),
    model: t.string(),
    fallbackModels: fallbackModels(t),
    modelSettings: modelSettings(t),
    mind: t.field({ type: MindType, required: true, defaultValue: 'STATELESS' }),
    toolset: t.field({ type: ToolsetType, required: true, defaultValue: 'ACTIVE_SPACE' }),
    maxSteps: t.int(),
    maxToolCalls: t.int({ description: 'Tool calls that one run may make; absent: five for each of `maxSteps`.' }),
    tokenBudget: t.int(),
    budget: t.field({ type: BudgetInput }),
    maxConcurrentRuns: t.int(),
    tools: t.field({ type: [ToolInput] }),
    phases: t.field({ type: [ToolPhaseInput] }),
    cycle: t.field({ type: CycleSettingsInput }),
    mcpServers: t.field({ type: [McpServerInput] }),
    notifyUrl: t.string({ description: notifyUrl }),
    addableBy: t.field({ type: AddableByType }),
  }),
})

const UpdateAgentInput = builder.inputType('UpdateAgentInput', {
  description:
    "Absent: stays as it is. Null: cleared where the agent's field is nullable, else BadInputError. Lists replace as a whole; `cycle` field by field.",
  fields: (t) => ({
    id: t.id({ required: true }),
    name: t.string(),
    description: t.string(),
    instructions: t.string(),
    model: t.string(),
    fallbackModels: fallbackModels(t),
    modelSettings: modelSettings(t),
    maxSteps: t.int(),
    maxToolCalls: t.int(),
    tokenBudget: t.int(),
    budget: t.field({ type: BudgetInput }),
    maxConcurrentRuns: t.int(),
    tools: t.field({ type: [ToolInput] }),
    phases: t.field({ type: [ToolPhaseInput] }),
    cycle: t.field({ type: CycleSettingsInput }),
    mcpServers: t.field({ type: [McpServerInput] }),
    addableBy: t.field({ type: AddableByType }),
    paused: t.boolean(),
    notifyUrl: t.string(),
  }),
})

const agentPayload = (name: string, notifySecret: string) =>
  builder.objectRef<{ agent: shapes.Agent; notifySecret: string | null }>(name).implement({
    fields: (t) => ({
      agent: t.expose('agent', { type: Agent }),
      notifySecret: t.exposeString('notifySecret', { nullable: true, description: notifySecret }),
    }),
  })

const DeleteAgentInput = builder.inputType('DeleteAgentInput', { fields: (t) => ({ id: t.id({ required: true }) }) })

const DeleteAgentPayload = builder.objectRef<{ deletedAgentId: string }>('DeleteAgentPayload').implement({
  fields: (t) => ({ deletedAgentId: t.exposeID('deletedAgentId') }),
})

builder.mutationFields((t) => ({
  deleteAgent: t.field({
    type: DeleteAgentPayload,
    description:
      'For admins. It remains as id, kind and name, with `deletedAt`, for whoever sees what it did; its runs end CANCELED (GONE); its mind, tools, webhooks and plans are gone.',
    errors: { types: [ForbiddenError, NotFoundError] },
    args: { input: t.arg({ type: DeleteAgentInput, required: true }) },
    resolve(_, { input }, context) {
      const { domain, viewer } = renewed(context)
      return domain.deletion.deleteAgent(viewer, input)
    },
  }),
  createAgent: t.field({
    type: agentPayload(
      'CreateAgentPayload',
      'Signs what goes to `notifyUrl` (`whsec_…`): shown this once, where this call set one.',
    ),
    errors: { types: [BadInputError, ForbiddenError, LimitExceededError] },
    args: { input: t.arg({ type: CreateAgentInput, required: true }) },
    async resolve(_, { input }, context) {
      const { domain, viewer, loaders } = renewed(context)
      const { notifySecret, ...agent } = await domain.agents.create(viewer, input)
      loaders.agents.prime(agent.id, agent)
      return { agent, notifySecret }
    },
  }),
  updateAgent: t.field({
    type: agentPayload('UpdateAgentPayload', 'As for CreateAgentPayload.'),
    errors: { types: [BadInputError, ForbiddenError, NotFoundError] },
    args: { input: t.arg({ type: UpdateAgentInput, required: true }) },
    async resolve(_, { input }, context) {
      const { domain, viewer, loaders } = renewed(context)
      const { notifySecret, ...agent } = await domain.agents.update(viewer, input)
      loaders.agents.prime(agent.id, agent)
      return { agent, notifySecret }
    },
  }),
}))
