import { BadInputError, ForbiddenError, LimitExceededError, NotFoundError, RateLimitedError } from '../lib/errors.ts'
import { ApprovalPolicyInput } from './approval-policy.ts'
import { BudgetInput } from './budget.ts'
import { builder } from './builder.ts'
import { checkRequestRate, renewed } from './context.ts'
import {
  AddableByType,
  McpAuthorizationType,
  MindType,
  PlainTextType,
  ToolChoiceType,
  ToolExecutionType,
  ToolsetType,
} from './enums.ts'
import { Agent } from './refs.ts'
import type * as shapes from './shapes.ts'

export const ToolInput = builder.inputType('ToolInput', {
  fields: (t) => ({
    name: t.string({ required: true }),
    description: t.string({ required: true }),
    inputSchema: t.field({ type: 'JSON', required: true }),
    execution: t.field({ type: ToolExecutionType, required: true }),
    visible: t.boolean({
      description: 'Default true for SPACE tools, which must be visible, and false for others.',
    }),
    timeoutMs: t.int({
      description: 'If absent: 30000 for HTTP, `PARLEY_TOOL_WAIT_SECONDS` for SPACE and EXTERNAL.',
    }),
    url: t.string(),
    method: t.string({
      description:
        'GET, POST, PUT, PATCH or DELETE. Inputs that have a placeholder in the URL (`{id}` in the path, `{?limit,tags*}` in the query) become part of the URL; the others are sent as the JSON body, or as the query of a GET or DELETE. If absent: a POST of the whole input as JSON to the unchanged URL.',
    }),
    approval: t.field({ type: ApprovalPolicyInput }),
    resultSchema: t.field({
      type: 'JSON',
      description:
        'JSON Schema for submitted results of SPACE and EXTERNAL calls; a result that does not match causes a BadInputError. If absent, any result is accepted.',
    }),
    mayReceiveConfidential: t.boolean({
      required: true,
      defaultValue: false,
      description: 'Whether calls may contain content of confidential spaces, which then leaves the server.',
    }),
    alwaysAsk: t.boolean({
      description: 'If true, a standing grant can never cover calls to this tool. Default false.',
    }),
    headers: t.field({
      type: 'JSON',
      description:
        'HTTP request headers, name to value. Stored encrypted, never returned. In an update: if absent, the tool with the same name keeps its headers; null removes them.',
    }),
  }),
})

const ToolPhaseInput = builder.inputType('ToolPhaseInput', {
  fields: (t) => ({
    fromStep: t.int({ required: true }),
    model: t.string(),
    modelSettings: t.field({
      type: 'JSON',
      description: "Each setting overrides the agent's setting of the same name.",
    }),
    activeTools: t.stringList(),
    toolChoice: t.field({ type: ToolChoiceType, required: true, defaultValue: 'AUTO' }),
  }),
})

const CycleSettingsInput = builder.inputType('CycleSettingsInput', {
  description:
    'Defaults: maxConsciousnessTokens 100000, minRecentCycles 10, inboxPreview true, urgentInjection true, urgentFrom empty, stopWhenAllAnswered false. In an update, absent fields stay unchanged.',
  fields: (t) => ({
    maxConsciousnessTokens: t.int(),
    minRecentCycles: t.int(),
    inboxPreview: t.boolean(),
    urgentInjection: t.boolean(),
    urgentFrom: t.idList(),
    stopWhenAllAnswered: t.boolean(),
  }),
})

export const McpServerInput = builder.inputType('McpServerInput', {
  fields: (t) => ({
    name: t.string({ required: true }),
    url: t.string({ required: true }),
    headers: t.field({
      type: 'JSON',
      description:
        'HTTP request headers, name to value. Stored encrypted, never returned. In an update: if absent, the server with the same name keeps its headers; null removes them.',
    }),
    allowedTools: t.stringList(),
    approval: t.field({
      type: ApprovalPolicyInput,
      description:
        'Applies to every tool of this server or, if `approvalTools` is set, only to those tools, under the names that the server lists. `approvalTools` without `approval` causes a BadInputError.',
    }),
    approvalTools: t.stringList(),
    mayReceiveConfidential: t.boolean({
      required: true,
      defaultValue: false,
      description:
        'Whether calls may contain content of confidential spaces, which then leaves the server. If `confidentialTools` is set, this applies only to calls to those tools.',
    }),
    confidentialTools: t.stringList(),
    oauth: t.field({
      type: McpAuthorizationType,
      description: 'Default NONE. In an update, a server that keeps its name and URL keeps its authorization.',
    }),
    alwaysAskTools: t.stringList({
      description: 'Tools whose calls a standing grant can never cover. The names are those that the server lists.',
    }),
  }),
})

const RemoteAgentInput = builder.inputType('RemoteAgentInput', {
  description: 'The connection to an agent on another server, whose model is `a2a:<URL of its agent card>`.',
  fields: (t) => ({
    headers: t.field({
      type: 'JSON',
      description:
        'HTTP request headers, name to value, for requests for the card and to the agent. Stored encrypted, never returned. In an update: if absent, the agent keeps its headers; null removes them.',
    }),
    approval: t.field({
      type: ApprovalPolicyInput,
      description:
        'The approval that each message needs before it is sent. In an update: if absent, the agent keeps its policy; null removes it.',
    }),
    mayReceiveConfidential: t.boolean({
      description:
        'Whether messages from confidential spaces may be sent to the agent; their content then leaves the server. Default false. In an update: if absent, the agent keeps its value, unless the URL in the new model has a different origin.',
    }),
  }),
})

type InputFields = Parameters<Parameters<typeof builder.inputType>[1]['fields']>[0]

const fallbackModels = (t: InputFields) =>
  t.stringList({
    description: "Models to try, in order, when a model's provider fails before any output is shown.",
  })

const modelSettings = (t: InputFields) =>
  t.field({
    type: 'JSON',
    description:
      'Keys: temperature, topP, reasoningEffort, maxOutputTokens, serviceTier. Other keys and values out of range cause a BadInputError.',
  })

const notifyUrl =
  'Receives a signed POST (Standard Webhooks) when a tool call starts to wait, is claimed, is escalated or is decided: `{ type: "tool_call.waiting" | …claimed | …escalated | …decided, timestamp, data: { toolCallId, toolName, agentId, runId, spaceId, state, expiresAt } }`. Never contains inputs or reasons.'

const CreateAgentInput = builder.inputType('CreateAgentInput', {
  description:
    'Defaults: model `PARLEY_DEFAULT_MODEL`, maxSteps 20, no tokenBudget (PERSISTENT: 50000), maxConcurrentRuns 5.',
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
    maxToolCalls: t.int({ description: 'Maximum tool calls of one run. If absent: five times `maxSteps`.' }),
    tokenBudget: t.int(),
    budget: t.field({ type: BudgetInput }),
    maxConcurrentRuns: t.int(),
    tools: t.field({ type: [ToolInput] }),
    phases: t.field({ type: [ToolPhaseInput] }),
    cycle: t.field({ type: CycleSettingsInput }),
    mcpServers: t.field({ type: [McpServerInput] }),
    notifyUrl: t.string({ description: notifyUrl }),
    addableBy: t.field({ type: AddableByType }),
    plainText: t.field({
      type: PlainTextType,
      description: 'Default: SPOKEN_IF_SILENT for models of local providers, INTERNAL for others.',
    }),
    remote: t.field({ type: RemoteAgentInput }),
  }),
})

const UpdateAgentInput = builder.inputType('UpdateAgentInput', {
  description:
    'An absent field stays unchanged. Null clears a field that can be null, and causes a BadInputError for any other field. A list replaces the whole stored list; `cycle` is merged field by field.',
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
    plainText: t.field({ type: PlainTextType }),
    remote: t.field({ type: RemoteAgentInput }),
    paused: t.boolean(),
    notifyUrl: t.string(),
    asDraft: t.boolean({
      description:
        'If true, the changes are added to the draft, and runs continue with the published version. `paused` and `notifyUrl` cannot be part of a draft. Default false.',
    }),
    versionNote: t.string({
      description: 'The reason for the change, shown in the list of versions. At most 1000 characters.',
    }),
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
      "Admins only. The agent's runs end as CANCELED (GONE); its memory, tools, webhooks and plans are deleted. Viewers who can see the agent's messages or runs still see its id, kind, name and `deletedAt`.",
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
      'Secret that signs requests to `notifyUrl` (`whsec_…`). Returned only by the mutation that sets a `notifyUrl`.',
    ),
    errors: { types: [BadInputError, ForbiddenError, LimitExceededError, RateLimitedError] },
    args: { input: t.arg({ type: CreateAgentInput, required: true }) },
    async resolve(_, { input }, context) {
      checkRequestRate(context)
      const { domain, viewer, loaders } = renewed(context)
      const { notifySecret, ...agent } = await domain.agents.create(viewer, input)
      loaders.agents.prime(agent.id, agent)
      return { agent, notifySecret }
    },
  }),
  updateAgent: t.field({
    type: agentPayload(
      'UpdateAgentPayload',
      'Secret that signs requests to `notifyUrl` (`whsec_…`). Returned only by the mutation that sets a `notifyUrl`.',
    ),
    errors: { types: [BadInputError, ForbiddenError, NotFoundError, RateLimitedError] },
    args: { input: t.arg({ type: UpdateAgentInput, required: true }) },
    async resolve(_, { input }, context) {
      checkRequestRate(context)
      const { domain, viewer, loaders } = renewed(context)
      const { notifySecret, ...agent } = await domain.agents.update(viewer, input)
      loaders.agents.prime(agent.id, agent)
      return { agent, notifySecret }
    },
  }),
}))
