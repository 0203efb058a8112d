import { BadInputError, ConflictError, ForbiddenError, NotFoundError, RateLimitedError } from '../lib/errors.ts'
import { existing } from './batch.ts'
import { builder } from './builder.ts'
import { renewed, takeRate } from './context.ts'
import { Message, Run } from './refs.ts'
import type * as shapes from './shapes.ts'

const SendMessageInput = builder.inputType('SendMessageInput', {
  fields: (t) => ({
    spaceId: t.id({ required: true }),
    text: t.string({ required: true }),
    mentionedAgentId: t.id({ description: 'Must be an agent that is a member of the space.' }),
    idempotencyKey: t.string({
      description:
        'If the same sender sends the same content to the same space with the same key again, the first message is returned and nothing is posted. Other content with the same key: ConflictError. The key is kept as long as the message.',
    }),
  }),
})

const SendMessagePayload = builder
  .objectRef<{ sentMessage: shapes.Message; runs: shapes.Run[] }>('SendMessagePayload')
  .implement({
    fields: (t) => ({
      sentMessage: t.expose('sentMessage', {
        type: Message,
        description: 'Not named `message`, so that clients can select it beside `... on Error { message }`.',
      }),
      runs: t.expose('runs', {
        type: [Run],
        description: 'The runs that the message started. Empty if it only reached inboxes.',
        complexity: { field: 1, multiplier: 3 },
      }),
    }),
  })

builder.mutationField('sendMessage', (t) =>
  t.field({
    type: SendMessagePayload,
    errors: { types: [BadInputError, ForbiddenError, NotFoundError, ConflictError, RateLimitedError] },
    args: { input: t.arg({ type: SendMessageInput, required: true }) },
    async resolve(_, { input }, context) {
      await takeRate(context, 'messages')
      const { domain, viewer, loaders } = renewed(context)
      const { message, runs } = await domain.sending.send(viewer, input)
      const [sentMessage] = await loaders.seenMessages([message])
      return { sentMessage: existing(sentMessage), runs: await loaders.seenRuns(runs) }
    },
  }),
)
