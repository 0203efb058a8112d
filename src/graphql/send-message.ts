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
      description: 'Files that the sender has uploaded and not sent yet, at most 20; see `POST /files`.',
    }),
    replyToId: t.id({
      description:
        'A message of the space: the new message joins its thread, or starts a thread on it. NotFoundError for other messages; BadInputError for a deleted one, unless it has a thread.',
    }),
    mentionedAgentId: t.id({
      description: 'The same as one of `mentionedIds`; must be an agent that is a member of the space.',
    }),
    mentionedIds: t.idList({
      description:
        'Members of the space, humans or agents, at most 20. Under MENTION_CHAIN routing at most one agent. BadInputError for others, and for paused agents.',
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
        description: 'Not named `message`, so that clients can select it next to `... on Error { message }`.',
      }),
      runs: t.expose('runs', {
        type: [Run],
        description: 'The runs that the message started. Empty if it only reached inboxes.',
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
      'The agents that a message of the viewer would wake now, in join order; at most 100. NOT_FOUND if the viewer may not see the space, or the message to reply to is not in it.',
    args: {
      spaceId: t.arg.id({ required: true }),
      mentionedIds: t.arg.idList({ description: 'Ids of anything but agent members are ignored.' }),
      replyToId: t.arg.id({
        description: 'The message that the new message would reply to: the turns and waits of its thread apply.',
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
