import { mentionsOf } from '../rules/message.ts'
import { loadAll, loadExisting, loadOptional } from './batch.ts'
import { builder } from './builder.ts'
import { Agent, Entity, Message, MessagePart, Node, Run, Space, TextPart, ToolCall } from './refs.ts'
import type * as shapes from './shapes.ts'

const MessageStatus = builder.enumType('MessageStatus', {
  values: {
    STREAMING: { description: 'The author is still writing the message.' },
    REQUIRES_ACTION: { description: 'The message contains a tool call that waits for an answer.' },
    COMPLETE: {},
    INTERRUPTED: {
      description:
        'The run was stopped, failed or crashed before the message was complete. The text streamed so far is kept.',
    },
  } as const,
})

Message.implement({
  description: "A message in a space. An agent's message grows while the agent writes it.",
  interfaces: [Node],
  fields: (t) => ({
    space: t.field({
      type: Space,
      // A viewer who sees a message also sees its space.
      resolve: ({ spaceId }, _, { loaders }) => loadExisting(loaders.spaces, spaceId),
    }),
    seq: t.exposeInt('seq', { description: '1, 2, 3, … within the space, without gaps.' }),
    sender: t.field({
      type: Entity,
      resolve: ({ senderId }, _, { loaders }) => loadExisting(loaders.entities, senderId),
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
    mentions: t.field({
      type: [Entity],
      description:
        'The humans and agents that the message mentions, in the order in which the sender gave them; at most 20.',
      complexity: { field: 1, multiplier: 2 },
      resolve: async (message, _, { loaders }) =>
        (await loadAll(loaders.entities, mentionsOf(message))).filter((entity) => entity !== null),
    }),
    mentionedAgent: t.field({
      type: Agent,
      nullable: true,
      description: 'The first agent among `mentions`.',
      resolve: ({ mentionedAgentId }, _, { loaders }) => loadOptional(loaders.entities, mentionedAgentId),
    }),
    run: t.field({
      type: Run,
      nullable: true,
      description: "The run that wrote the message. Null for a human's message, and if the viewer may not see the run.",
      // A viewer who sees a message is a member of its space, and may therefore see the runs that post in the space.
      resolve: ({ runId }, _, { loaders }) => loadOptional(loaders.runs, runId),
    }),
    waitingCall: t.field({
      type: ToolCall,
      nullable: true,
      description: 'The tool call that waits for a reply to this message, if there is one.',
      resolve: ({ id, runId }, _, { loaders }) => (runId === null ? null : loaders.waitingCalls.load(id)),
    }),
    idempotencyKey: t.string({
      nullable: true,
      description: 'The key that the sender provided. Null for all viewers except the sender.',
      resolve: ({ senderId, idempotencyKey }, _, { viewer }) =>
        idempotencyKey !== null && viewer.id === senderId ? idempotencyKey : null,
    }),
    fromPlainText: t.exposeBoolean('fromPlainText', {
      description: 'True if this is the closing text of an agent with SPOKEN_IF_SILENT.',
    }),
    createdAt: t.expose('createdAt', { type: 'DateTime' }),
  }),
})

const PART_TYPES = { text: 'TextPart', tool: 'ToolCallPart', file: 'FilePart' } as const

MessagePart.implement({
  description: 'A text, a tool call or a file of a message, in the order of `index`.',
  resolveType: ({ part }) => PART_TYPES[part.type],
  fields: (t) => ({
    id: t.id({
      description: '`<message id>:<index>`.',
      resolve: ({ messageId, index }) => `${messageId}:${index}`,
    }),
    index: t.exposeInt('index'),
  }),
})

TextPart.implement({
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
      resolve: ({ part }, _, { loaders }) =>
        loadExisting(loaders.toolCalls, part.type === 'tool' ? part.toolCallId : ''),
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
