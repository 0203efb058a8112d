import { BadInputError, ConflictError, ForbiddenError, NotFoundError, RateLimitedError } from '../lib/errors.ts'
import { existing, loadAll } from './batch.ts'
import { builder } from './builder.ts'
import { renewed, takeRate } from './context.ts'
import { Agent, Message, Run } from './refs.ts'
import type * as shapes from './shapes.ts'

const SendMessageInput = builder.inputType('SendMessageInput', {
  fields: (t) => ({
    spaceId: t.id({ required: true }),
    text: t.string({ required: true, description: 'May be empty if the message has files.' }),
    fileIds: t.idList({
      description: 'Files that the sender has uploaded with `POST /files` and not sent yet; at most 20.',
    }),
    replyToId: t.id({
      description:
        "A message of the space. The new message joins that message's thread, or starts one. NotFoundError if the message is not in the space. BadInputError if the message was deleted and has no thread.",
    }),
    mentionedAgentId: t.id({
      description: 'Has the same effect as the id in `mentionedIds`. Must be an agent that is a member of the space.',
    }),
    mentionedIds: t.idList({
      description:
        'Humans and agents that are members of the space; at most 20 and, under MENTION_CHAIN routing, at most one agent. The id of a paused agent, or of anything else, causes a BadInputError.',
    }),
    idempotencyKey: t.string({
      description:
        'If the same sender sends the same content to the same space with the same key again, the first message is returned and nothing is posted. Different content with the same key causes a ConflictError. The key is kept as long as the message.',
    }),
  }),
})

const SendMessagePayload = builder
  .objectRef<{ sentMessage: shapes.Message; runs: shapes.Run[] }>('SendMessagePayload')
  .implement({
    fields: (t) => ({
      sentMessage: t.expose('sentMessage', {
        type: Message,
        description:
          'This field is not called `message`, so that clients can select it together with `... on Error { message }`.',
      }),
      runs: t.expose('runs', {
        type: [Run],
        description:
          'The runs that the message started. Empty if only persistent agents received it, in their inboxes.',
        complexity: { field: 1, multiplier: 3 },
      }),
    }),
  })

const MOST_WOKEN = 100

builder.queryField('wakes', (t) =>
  t.field({
    type: [Agent],
    complexity: { field: 10, multiplier: 10 },
    description:
      'The agents that a message of the viewer would wake now, in the order in which they joined; at most 100. NOT_FOUND if the viewer may not see the space, or if the space does not contain the message to reply to.',
    args: {
      spaceId: t.arg.id({ required: true }),
      mentionedIds: t.arg.idList({ description: 'Ids that do not belong to agents in the space are ignored.' }),
      replyToId: t.arg.id({
        description:
          'The message that the new message would reply to. If given, the result depends on whose turn it is, and which tool calls wait, in the thread of that message.',
      }),
    },
    async resolve(_, { spaceId, mentionedIds, replyToId }, { domain, viewer, loaders }) {
      const asked = { spaceId, mentionedIds: mentionedIds ?? [], replyToId: replyToId ?? null }
      const ids = await domain.wakes.preview(viewer, asked)
      const agents = await loadAll(loaders.entities, ids.slice(0, MOST_WOKEN))
      return agents.filter((agent) => agent !== null)
    },
  }),
)

builder.mutationField('sendMessage', (t) =>
  t.field({
    type: SendMessagePayload,
    errors: { types: [BadInputError, ForbiddenError, NotFoundError, ConflictError, RateLimitedError] },
    args: { input: t.arg({ type: SendMessageInput, required: true }) },
    async resolve(_, { input }, context) {
      await takeRate(context, 'messages')
      const { domain, viewer, loaders } = renewed(context)
      const { message, runs } = await domain.sending.send(viewer, input)
      domain.presence.endTyping(viewer.id, message.spaceId)
      const [sentMessage] = await loaders.seenMessages([message])
      return { sentMessage: existing(sentMessage), runs: await loaders.seenRuns(runs) }
    },
  }),
)
