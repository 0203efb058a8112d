import { ApprovalPolicy } from './approval-policy.ts'
import { loadExisting } from './batch.ts'
import { builder } from './builder.ts'
import { connectionOf, idCursorWithin, idPageRequest, sizeOfPage } from './connections.ts'
import type { Context } from './context.ts'
import { GoalStatusType, McpAuthorizationType, PlainTextType, ToolChoiceType, ToolExecutionType } from './enums.ts'
import {
  AgentInternals,
  Consciousness,
  Cycle,
  Goal,
  InboxEvent,
  McpServer,
  McpTool,
  Memory,
  Node,
  Plan,
  Run,
  Tool,
} from './refs.ts'
import type * as shapes from './shapes.ts'

function agentOf({ agentId }: { agentId: string }, { loaders }: Context): Promise<shapes.Agent> {
  return loadExisting(loaders.agents, agentId)
}

const ToolPhase = builder.objectRef<shapes.Agent['phases'][number]>('ToolPhase').implement({
  description: 'Applies from step `fromStep` (0-based) until the next phase begins.',
  fields: (t) => ({
    fromStep: t.exposeInt('fromStep'),
    model: t.exposeString('model', { nullable: true, description: "Null means the agent's model." }),
    modelSettings: t.expose('modelSettings', {
      type: 'JSON',
      nullable: true,
      description: "Each setting overrides the agent's setting of the same name.",
    }),
    activeTools: t.exposeStringList('activeTools', { nullable: true, description: 'Null means all tools.' }),
    toolChoice: t.expose('toolChoice', { type: ToolChoiceType }),
  }),
})

const CycleSettings = builder.objectRef<NonNullable<shapes.Agent['cycle']>>('CycleSettings').implement({
  fields: (t) => ({
    maxConsciousnessTokens: t.exposeInt('maxConsciousnessTokens'),
    minRecentCycles: t.exposeInt('minRecentCycles'),
    inboxPreview: t.exposeBoolean('inboxPreview', {
      description: 'If true, the model sees a preview of its inbox before each step except the first.',
    }),
    urgentInjection: t.exposeBoolean('urgentInjection', {
      description:
        'If true, the model sees the full urgent events before each step except the first, and the events are removed from the inbox.',
    }),
    urgentFrom: t.exposeIDList('urgentFrom', { description: 'Humans and spaces whose messages are urgent.' }),
    stopWhenAllAnswered: t.exposeBoolean('stopWhenAllAnswered', {
      description:
        'If true, the cycle ends once the agent has sent as many messages as there were space messages in its inbox.',
    }),
  }),
})

type RemoteAgentShape = NonNullable<shapes.Agent['remote']>

const RemoteAgentCard = builder.objectRef<NonNullable<RemoteAgentShape['card']>>('RemoteAgentCard').implement({
  description: 'The A2A agent card that was last read. Its texts were written on the other server.',
  fields: (t) => ({
    fingerprint: t.exposeString('fingerprint', { description: 'A digest of the whole card, for `confirmAgentCard`.' }),
    name: t.exposeString('name'),
    description: t.exposeString('description'),
    version: t.exposeString('version'),
    url: t.exposeString('url', { description: "The URL to which the agent's messages are sent." }),
    skills: t.exposeStringList('skills'),
  }),
})

const RemoteAgent = builder.objectRef<RemoteAgentShape>('RemoteAgent').implement({
  description: 'The agent on another server that an agent with the model `a2a:<URL of its agent card>` represents.',
  fields: (t) => ({
    cardUrl: t.exposeString('cardUrl'),
    headerNames: t.exposeStringList('headerNames'),
    approval: t.expose('approval', { type: ApprovalPolicy, nullable: true }),
    mayReceiveConfidential: t.exposeBoolean('mayReceiveConfidential'),
    card: t.expose('card', {
      type: RemoteAgentCard,
      nullable: true,
      description: 'Null until a run has read the card.',
    }),
    confirmed: t.exposeBoolean('confirmed', {
      description:
        'False if the card has changed since it was trusted: nothing is sent to the agent until `confirmAgentCard`.',
    }),
  }),
})

AgentInternals.implement({
  description: "An agent's settings, tools and stored state.",
  fields: (t) => ({
    instructions: t.string({ resolve: async (parent, _, context) => (await agentOf(parent, context)).instructions }),
    fallbackModels: t.stringList({
      description: "Models to try, in order, when a model's provider fails before any output is shown.",
      resolve: async (parent, _, context) => (await agentOf(parent, context)).fallbackModels,
    }),
    modelSettings: t.field({
      type: 'JSON',
      nullable: true,
      description:
        'The settings that this agent overrides: temperature (0–2), topP (0–1), reasoningEffort (none, minimal, low, medium, high, xhigh, max), maxOutputTokens, serviceTier (auto, default, flex, priority, standard, standard_only; not sent to providers that do not support the value).',
      resolve: async (parent, _, context) => (await agentOf(parent, context)).modelSettings,
    }),
    maxToolCalls: t.int({
      resolve: async (parent, _, context) => (await agentOf(parent, context)).maxToolCalls,
    }),
    maxSteps: t.int({ resolve: async (parent, _, context) => (await agentOf(parent, context)).maxSteps }),
    tokenBudget: t.int({
      nullable: true,
      description: 'Maximum tokens, input and output together, of one run or think cycle. Null means no limit.',
      resolve: async (parent, _, context) => (await agentOf(parent, context)).tokenBudget,
    }),
    maxConcurrentRuns: t.int({
      resolve: async (parent, _, context) => (await agentOf(parent, context)).maxConcurrentRuns,
    }),
    notifyUrl: t.string({
      nullable: true,
      resolve: async (parent, _, context) => (await agentOf(parent, context)).notifyUrl,
    }),
    plainText: t.field({
      type: PlainTextType,
      resolve: async (parent, _, context) => (await agentOf(parent, context)).plainText,
    }),
    remote: t.field({
      type: RemoteAgent,
      nullable: true,
      description: 'Null for an agent that runs on this server.',
      resolve: async (parent, _, context) => (await agentOf(parent, context)).remote,
    }),
    phases: t.field({
      type: [ToolPhase],
      description:
        'Limits the tools that the model can use at each step, or requires it to use one. If empty, all tools are available at every step.',
      resolve: async (parent, _, context) => (await agentOf(parent, context)).phases,
    }),
    cycle: t.field({
      type: CycleSettings,
      nullable: true,
      description: 'Null for a stateless agent.',
      resolve: async (parent, _, context) => (await agentOf(parent, context)).cycle,
    }),
  }),
})

builder.objectFields(AgentInternals, (t) => ({
  tools: t.field({ type: [Tool], resolve: ({ agentId }, _, { loaders }) => loaders.tools.load(agentId) }),
  mcpServers: t.field({
    type: [McpServer],
    resolve: ({ agentId }, _, { loaders }) => loaders.mcpServers.load(agentId),
  }),
  memories: t.field({ type: [Memory], resolve: ({ agentId }, _, { loaders }) => loaders.memories.load(agentId) }),
  goals: t.field({ type: [Goal], resolve: ({ agentId }, _, { loaders }) => loaders.goals.load(agentId) }),
  plans: t.field({ type: [Plan], resolve: ({ agentId }, _, { loaders }) => loaders.plans.load(agentId) }),
  inbox: t.connection(
    {
      type: InboxEvent,
      description: 'Events that wait for the next think cycle, oldest first.',
      complexity: sizeOfPage(),
      async resolve({ agentId }, page, { loaders }) {
        const request = idPageRequest('inb', page, agentId)
        return connectionOf(await loaders.inboxPages.load({ parentId: agentId, request }), idCursorWithin(agentId))
      },
    },
    { name: 'InboxEventConnection' },
    { name: 'InboxEventEdge' },
  ),
  consciousness: t.field({
    type: Consciousness,
    nullable: true,
    description: 'Null for a stateless agent.',
    resolve: ({ agentId }, _, { loaders }) => loaders.consciousness.load(agentId),
  }),
}))

Tool.implement({
  description: 'A custom tool of an agent.',
  fields: (t) => ({
    name: t.exposeString('name'),
    description: t.exposeString('description'),
    inputSchema: t.expose('inputSchema', { type: 'JSON', description: 'JSON Schema of the input object.' }),
    execution: t.expose('execution', { type: ToolExecutionType }),
    visible: t.exposeBoolean('visible', {
      description: 'Whether calls are shown as a message part in the space in which they are made.',
    }),
    timeoutMs: t.exposeInt('timeoutMs'),
    url: t.exposeString('url', { nullable: true }),
    method: t.exposeString('method', {
      nullable: true,
      description:
        'The HTTP method. Inputs that have a placeholder in the URL become part of the URL; the others are sent as the JSON body, or as the query of a GET or DELETE. Null means a POST of the whole input as JSON.',
    }),
    approval: t.expose('approval', { type: ApprovalPolicy, nullable: true }),
    resultSchema: t.field({ type: 'JSON', nullable: true, resolve: (tool) => tool.resultSchema }),
    alwaysAsk: t.exposeBoolean('alwaysAsk', {
      description: 'True if a standing grant can never cover calls to this tool.',
    }),
    headerNames: t.exposeStringList('headerNames'),
  }),
})

McpTool.implement({
  fields: (t) => ({
    name: t.exposeString('name'),
    description: t.exposeString('description', { nullable: true }),
    inputSchema: t.expose('inputSchema', { type: 'JSON' }),
    confirmed: t.exposeBoolean('confirmed', {
      description:
        'Whether the tool may be offered to the model. False for a tool that the server added later or whose definition has changed, until an admin calls `confirmMcpTools`.',
    }),
  }),
})

const McpProblem = builder.objectRef<shapes.McpServer['problems'][number]>('McpProblem').implement({
  description: 'Why an MCP server, or one of its tools, is not offered to the model.',
  fields: (t) => ({
    toolName: t.exposeString('toolName', {
      nullable: true,
      description: 'Null if the problem concerns the whole server.',
    }),
    reason: t.exposeString('reason'),
  }),
})

McpServer.implement({
  description: 'A Model Context Protocol server that gives the agent tools, named `<server>__<tool>`.',
  fields: (t) => ({
    name: t.exposeString('name'),
    url: t.exposeString('url'),
    headerNames: t.exposeStringList('headerNames'),
    allowedTools: t.exposeStringList('allowedTools', {
      nullable: true,
      description: 'Null means all tools that the server offers.',
    }),
    tools: t.expose('tools', { type: [McpTool] }),
    problems: t.expose('problems', {
      type: [McpProblem],
      description: 'Why the server or some of its tools could not be used when a run last contacted it.',
    }),
    approval: t.expose('approval', { type: ApprovalPolicy, nullable: true }),
    approvalTools: t.exposeStringList('approvalTools', { nullable: true }),
    oauth: t.expose('oauth', { type: McpAuthorizationType }),
    authorized: t.exposeBoolean('authorized', {
      description: 'Whether an OAuth authorization of the server itself was started or completed.',
    }),
    alwaysAskTools: t.exposeStringList('alwaysAskTools', {
      description: 'Tools whose calls a standing grant can never cover.',
    }),
  }),
})

Memory.implement({
  description: 'A key and a value that an agent has stored for later runs.',
  fields: (t) => ({
    key: t.exposeString('key'),
    value: t.exposeString('value'),
    updatedAt: t.expose('updatedAt', { type: 'DateTime' }),
  }),
})

Goal.implement({
  description: 'A goal that an agent pursues over several runs.',
  interfaces: [Node],
  fields: (t) => ({
    description: t.exposeString('description'),
    status: t.expose('status', { type: GoalStatusType }),
    updatedAt: t.expose('updatedAt', { type: 'DateTime' }),
  }),
})

Consciousness.implement({
  description: "A persistent agent's context: the think cycles that its next cycle can recall.",
  fields: (t) => ({
    messages: t.expose('messages', {
      type: 'JSON',
      description: 'AI SDK ModelMessage[] as stored, without the system prompt.',
    }),
    cycleCount: t.exposeInt('cycleCount'),
    tokenEstimate: t.exposeInt('tokenEstimate'),
    lastCycleAt: t.expose('lastCycleAt', { type: 'DateTime', nullable: true }),
    cycles: t.connection(
      {
        type: Cycle,
        description: 'The think cycles, oldest first.',
        complexity: sizeOfPage(),
        async resolve({ agentId }, page, { loaders }) {
          const request = idPageRequest('cyc', page, agentId)
          return connectionOf(await loaders.cyclePages.load({ parentId: agentId, request }), idCursorWithin(agentId))
        },
      },
      { name: 'CycleConnection' },
      { name: 'CycleEdge' },
    ),
  }),
})

Cycle.implement({
  description: 'A completed think cycle, in the form in which later cycles recall it.',
  interfaces: [Node],
  fields: (t) => ({
    id: t.exposeID('id', { description: '`cyc_…`' }),
    endedAt: t.expose('createdAt', { type: 'DateTime' }),
    run: t.field({
      type: Run,
      nullable: true,
      resolve: ({ runId }, _, { loaders }) => loaders.visible.runs.load(runId),
    }),
    summary: t.exposeString('summary', { nullable: true }),
    tokenEstimate: t.exposeInt('tokenEstimate'),
    messages: t.expose('messages', { type: 'JSON', description: 'AI SDK ModelMessage[].' }),
  }),
})

const InboxEventType = builder.enumType('InboxEventType', {
  values: ['SPACE_MESSAGE', 'PLAN', 'SERVICE', 'TOOL_RESULT'] as const,
})

InboxEvent.implement({
  description: 'An event that waits for the next think cycle of a persistent agent.',
  interfaces: [Node],
  fields: (t) => ({
    type: t.expose('type', { type: InboxEventType }),
    urgent: t.exposeBoolean('urgent'),
    payload: t.expose('payload', { type: 'JSON' }),
    createdAt: t.expose('createdAt', { type: 'DateTime' }),
  }),
})
