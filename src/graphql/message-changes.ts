import {
  BadInputError,
  ConflictError,
  ForbiddenError,
  LimitExceededError,
  NotFoundError,
  RateLimitedError,
} from '../lib/errors.ts'
import { existing, loadAll } from './batch.ts'
import { builder } from './builder.ts'
import { renewed, takeRate } from './context.ts'
import { Entity, Message, Run } from './refs.ts'
import type * as shapes from './shapes.ts'

const MessageVersion = builder.objectRef<shapes.MessageVersion>('MessageVersion').implement({
  description: 'An earlier text of a message.',
  fields: (t) => ({
    text: t.exposeString('text'),
    editedAt: t.expose('editedAt', { type: 'DateTime', description: 'When a newer text replaced this one.' }),
  }),
})

const Reaction = builder.objectRef<shapes.Reaction>('Reaction').implement({
  fields: (t) => ({
    emoji: t.exposeString('emoji'),
    count: t.exposeInt('count', { description: 'How many humans and agents chose the emoji.' }),
    entities: t.field({
      type: [Entity],
      description: 'The first humans and agents who chose the emoji; at most 20.',
      complexity: { field: 1, multiplier: 3 },
      resolve: async ({ entityIds }, _, { loaders }) =>
        (await loadAll(loaders.entities, entityIds)).filter((entity) => entity !== null),
    }),
    mine: t.boolean({
      description: 'Whether the viewer is one of the humans who chose the emoji.',
      resolve: ({ messageId, emoji }, _, { loaders, viewer }) =>
        loaders.ofHumans.ownReactions.load({ entityId: viewer.id, messageId, emoji }),
    }),
  }),
})

builder.objectFields(Message, (t) => ({
  editedAt: t.expose('editedAt', {
    type: 'DateTime',
    nullable: true,
    description: 'When the text was last changed; null if it never was.',
  }),
  deletedAt: t.expose('deletedAt', {
    type: 'DateTime',
    nullable: true,
    description: 'When the message and its content were deleted.',
  }),
  versions: t.field({
    type: [MessageVersion],
    description: 'Earlier texts, newest first, at most 20. Empty once the message is deleted.',
    complexity: { field: 1, multiplier: 2 },
    resolve: async ({ id, editedAt }, _, { loaders, meter }) =>
      editedAt === null ? [] : ((await loaders.messageVersions.load({ id, meter })) ?? []),
  }),
  staleRuns: t.field({
    type: [Run],
    description: 'Runs that the viewer may see and that read an earlier version of the message; at most 100.',
    complexity: { field: 10, multiplier: 3 },
    async resolve({ id, editedAt }, _, { loaders }) {
      const runs = editedAt === null ? [] : await loaders.staleRuns.load(id)
      const seen = await Promise.all((await loaders.seenRuns(runs)).map((run) => loaders.visible.seenRun(run)))
      return seen.filter((run) => run !== null)
    },
  }),
  reactions: t.field({
    type: [Reaction],
    description: 'The reactions, in the order in which the emojis were first used; at most 50.',
    complexity: { field: 1, multiplier: 2 },
    resolve: ({ id, reactionCount }, _, { loaders }) => (reactionCount === 0 ? [] : loaders.reactions.load(id)),
  }),
}))

const EditMessageInput = builder.inputType('EditMessageInput', {
  fields: (t) => ({
    messageId: t.id({ required: true }),
    text: t.string({ required: true }),
    retryRuns: t.boolean({
      required: true,
      defaultValue: false,
      description:
        'If true, starts one new run of each agent that answered the previous text and is still a member. The limits for posting apply. Other agents are not woken.',
    }),
  }),
})

const EditMessagePayload = builder
  .objectRef<{ editedMessage: shapes.Message; runs: shapes.Run[] }>('EditMessagePayload')
  .implement({
    fields: (t) => ({
      editedMessage: t.expose('editedMessage', { type: Message }),
      runs: t.expose('runs', {
        type: [Run],
        description: 'The runs that `retryRuns` started. A persistent agent gets an inbox event instead.',
        complexity: { field: 1, multiplier: 3 },
      }),
    }),
  })

builder.mutationField('editMessage', (t) =>
  t.field({
    type: EditMessagePayload,
    description:
      'Changes the text of a message. The message keeps its `seq`, time, mentions and outcomes. Only the sender may edit a message. Published as MessageUpdated.',
    errors: {
      types: [BadInputError, ForbiddenError, NotFoundError, ConflictError, LimitExceededError, RateLimitedError],
      union: {
        description:
          'ConflictError: the message is streaming, waits for an answer, shows tool calls, or was deleted. LimitExceededError: the message has been edited 1,000 times.',
      },
    },
    args: { input: t.arg({ type: EditMessageInput, required: true }) },
    async resolve(_, { input }, context) {
      await takeRate(context, 'messages')
      const { domain, viewer, loaders } = renewed(context)
      const { message, runs } = await domain.messageChanges.edit(viewer, input)
      const [editedMessage] = await loaders.seenMessages([message])
      return { editedMessage: existing(editedMessage), runs: await loaders.seenRuns(runs) }
    },
  }),
)

const DeleteMessageInput = builder.inputType('DeleteMessageInput', {
  fields: (t) => ({ messageId: t.id({ required: true }) }),
})

const DeleteMessagePayload = builder.objectRef<{ deletedMessage: shapes.Message }>('DeleteMessagePayload').implement({
  fields: (t) => ({ deletedMessage: t.expose('deletedMessage', { type: Message }) }),
})

builder.mutationField('deleteMessage', (t) =>
  t.field({
    type: DeleteMessagePayload,
    description:
      'Removes the content of a message, its versions and its reactions, and removes its text from prompts, journals and logs. The message keeps its `seq`. Only the sender and admins may delete a message. Published as MessageUpdated; a subscription that resumes from an earlier cursor gets a snapshot.',
    errors: {
      types: [ForbiddenError, NotFoundError, ConflictError],
      union: { description: 'ConflictError: the message is streaming, waits for an answer, or was already deleted.' },
    },
    args: { input: t.arg({ type: DeleteMessageInput, required: true }) },
    async resolve(_, { input }, context) {
      const { domain, viewer, loaders } = renewed(context)
      const message = await domain.messageChanges.delete(viewer, input)
      const [deletedMessage] = await loaders.seenMessages([message])
      return { deletedMessage: existing(deletedMessage) }
    },
  }),
)

const ReactInput = builder.inputType('ReactInput', {
  fields: (t) => ({
    messageId: t.id({ required: true }),
    emoji: t.string({ required: true, description: 'Exactly one emoji.' }),
    on: t.boolean({
      required: true,
      defaultValue: true,
      description: "If false, removes the viewer's reaction instead.",
    }),
  }),
})

const ReactPayload = builder.objectRef<{ message: shapes.Message }>('ReactPayload').implement({
  fields: (t) => ({ message: t.expose('message', { type: Message }) }),
})

builder.mutationField('react', (t) =>
  t.field({
    type: ReactPayload,
    description: 'Adds an emoji to a message, or removes it. Does not wake any agent. Published as MessageUpdated.',
    errors: {
      types: [BadInputError, ForbiddenError, NotFoundError, LimitExceededError, RateLimitedError],
      union: {
        description:
          'ForbiddenError: the message was deleted, or the viewer is not a human. LimitExceededError: the message has 50 different emojis.',
      },
    },
    args: { input: t.arg({ type: ReactInput, required: true }) },
    async resolve(_, { input }, context) {
      await takeRate(context, 'messages')
      const { domain, viewer, loaders } = renewed(context)
      const [message] = await loaders.seenMessages([await domain.messageChanges.react(viewer, input)])
      return { message: existing(message) }
    },
  }),
)
