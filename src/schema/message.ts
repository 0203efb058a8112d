import { loadOptional } from './batch.ts'
import { builder } from './builder.ts'
import { TriggerTypeType } from './enums.ts'
import { Agent, AgentOutcome, Entity, Message, MessagePart, Node, Run, Space, ToolCall } from './refs.ts'
import type * as shapes from './shapes.ts'

const MessageStatus = builder.enumType('MessageStatus', {
  values: {
    STREAMING: { description: 'Its author is still writing it.' },
    REQUIRES_ACTION: { description: "It shows a tool that waits for somebody's answer." },
    COMPLETE: {},
    INTERRUPTED: {
      description: 'Its run was stopped, failed or crashed before it was whole; what had streamed is kept.',
    },
  } as const,
})

const MessageOrigin = builder.objectRef<NonNullable<shapes.Message['origin']>>('MessageOrigin').implement({
  description: "The four last fields are null where the viewer is not a member of the trigger's space.",
  fields: (t) => ({
    triggerType: t.expose('triggerType', { type: TriggerTypeType }),
    triggerName: t.exposeString('triggerName', {
      nullable: true,
      description: "The service's name for a SERVICE trigger, the plan's for a PLAN trigger.",
    }),
    triggerSpaceId: t.exposeID('triggerSpaceId', { nullable: true }),
    triggerSpaceName: t.exposeString('triggerSpaceName', { nullable: true }),
    triggerSenderName: t.exposeString('triggerSenderName', { nullable: true }),
    triggerMessage: t.exposeString('triggerMessage', { nullable: true }),
  }),
})

const HIDDEN = { triggerSpaceId: null, triggerSpaceName: null, triggerSenderName: null, triggerMessage: null }

Message.implement({
  interfaces: [Node],
  fields: (t) => ({
    space: t.field({
      type: Space,
      // Who sees a message sees its space.
      resolve: async ({ spaceId }, _, { loaders }) => (await loaders.spaces.load(spaceId))!,
    }),
    seq: t.exposeInt('seq', { description: '1, 2, 3, … within the space, without a gap.' }),
    sender: t.field({
      type: Entity,
      resolve: async ({ senderId }, _, { loaders }) => (await loaders.entities.load(senderId))!,
    }),
    status: t.expose('status', { type: MessageStatus }),
    parts: t.field({
      type: [MessagePart],
      complexity: { field: 1, multiplier: 2 },
      resolve: ({ id, parts }) => parts.map((part, index) => ({ messageId: id, index, part })),
    }),
    text: t.string({
      description: 'The text parts, joined by a blank line.',
      resolve: ({ parts }) => parts.flatMap((part) => (part.type === 'text' ? part.text : [])).join('\n\n'),
    }),
    mentionedAgent: t.field({
      type: Agent,
      nullable: true,
      resolve: ({ mentionedAgentId }, _, { loaders }) => loadOptional(loaders.entities, mentionedAgentId),
    }),
    run: t.field({
      type: Run,
      nullable: true,
      description: "The run that wrote it; null for a human's message, and where the viewer may not see the run.",
      resolve: ({ runId }, _, { loaders }) => loadOptional(loaders.visible.runs, runId),
    }),
    idempotencyKey: t.string({
      nullable: true,
      description: "The sender's own, given to the sender only.",
      resolve: ({ senderId, idempotencyKey }, _, { viewer }) => (viewer.id === senderId ? idempotencyKey : null),
    }),
    origin: t.field({
      type: MessageOrigin,
      nullable: true,
      description:
        'Why it was posted, when it was posted from a run that another space, a plan or a service triggered.',
      async resolve({ origin }, _, { loaders }) {
        if (origin === null || origin.triggerSpaceId === null) return origin
        const space = await loaders.visible.spaces.load(origin.triggerSpaceId)
        return space === null ? { ...origin, ...HIDDEN } : origin
      },
    }),
    outcomes: t.field({
      type: [AgentOutcome],
      description: 'What this message meant to each agent member: who woke, who did not, and why.',
      complexity: { field: 1, multiplier: 3 },
      resolve: ({ id }, _, { loaders }) => loaders.outcomes.load(id),
    }),
    createdAt: t.expose('createdAt', { type: 'DateTime' }),
  }),
})

MessagePart.implement({
  resolveType: ({ part }) => (part.type === 'text' ? 'TextPart' : 'ToolCallPart'),
  fields: (t) => ({
    id: t.id({ description: '`<message id>:<index>`.', resolve: ({ messageId, index }) => `${messageId}:${index}` }),
    index: t.exposeInt('index'),
  }),
})

builder.objectRef<shapes.PlacedPart>('TextPart').implement({
  interfaces: [MessagePart],
  fields: (t) => ({
    text: t.string({ resolve: ({ part }) => (part.type === 'text' ? part.text : '') }),
  }),
})

builder.objectRef<shapes.PlacedPart>('ToolCallPart').implement({
  interfaces: [MessagePart],
  fields: (t) => ({
    toolCall: t.field({
      type: ToolCall,
      resolve: async ({ part }, _, { loaders }) =>
        (await loaders.toolCalls.load(part.type === 'tool' ? part.toolCallId : ''))!,
    }),
  }),
})

const AgentOutcomeKind = builder.enumType('AgentOutcomeKind', {
  values: {
    RUN: { description: 'It started a run.' },
    INBOX: { description: "It went to the agent's inbox." },
    SKIPPED: { description: 'Its agent read it and called skip.' },
    NOT_ROUTED: { description: "The space's routing did not choose this agent." },
    LOOP_LIMIT: { description: 'The chain of triggers had reached its greatest depth or number of runs.' },
    DUPLICATE: { description: 'This agent had been triggered by this message before.' },
  } as const,
})

AgentOutcome.implement({
  fields: (t) => ({
    agent: t.field({
      type: Agent,
      resolve: async ({ agentId }, _, { loaders }) => (await loaders.entities.load(agentId))!,
    }),
    kind: t.expose('kind', { type: AgentOutcomeKind }),
    reason: t.string({
      nullable: true,
      description: 'Admins only.',
      resolve: ({ reason }, _, { viewer }) => (viewer.scope === 'ADMIN' ? reason : null),
    }),
    run: t.field({
      type: Run,
      nullable: true,
      resolve: ({ runId }, _, { loaders }) => loadOptional(loaders.visible.runs, runId),
    }),
  }),
})

builder.queryField('message', (t) =>
  t.field({
    type: Message,
    nullable: true,
    args: { id: t.arg.id({ required: true }) },
    resolve: (_, { id }, { loaders }) => loaders.visible.messages.load(id),
  }),
)
