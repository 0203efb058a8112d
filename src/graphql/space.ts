import { loadOptional } from './batch.ts'
import { builder } from './builder.ts'
import { connectionOf, DEFAULT_MESSAGES, idCursor, idPageRequest, messagesRequest, sizeOfPage } from './connections.ts'
import { RoutingType } from './enums.ts'
import { MessageConnection, MessageEdge } from './message-connection.ts'
import { Agent, Entity, Message, Node, Space, StandingGrant } from './refs.ts'

Space.implement({
  description: 'A room with members and one ordered list of messages.',
  interfaces: [Node],
  fields: (t) => ({
    name: t.exposeString('name'),
    description: t.exposeString('description', { nullable: true }),
    routing: t.expose('routing', { type: RoutingType }),
    confidential: t.exposeBoolean('confidential', {
      description:
        'Whether the space is confidential. Content of a confidential space may be repeated only where all humans who can read it are also members of this space.',
    }),
    mentionNarrows: t.exposeBoolean('mentionNarrows', {
      description: 'For BROADCAST routing: whether a message that mentions an agent wakes only that agent.',
    }),
    adminAgent: t.field({
      type: Agent,
      nullable: true,
      description:
        "The agent that human messages wake under ADMIN routing. If no agent is set, this is the space's only agent.",
      resolve: async ({ id }, _, { loaders }) => loadOptional(loaders.entities, await loaders.adminAgents.load(id)),
    }),
    members: t.field({
      type: [Entity],
      description: 'A space has at most 500 members.',
      resolve: ({ id }, _, { loaders }) => loaders.members.load(id),
    }),
    messages: t.connection(
      {
        type: Message,
        description:
          'The messages in order of `seq`. Without `first` and `last`, the last 50 messages are returned. `after` and `before` also accept the id of a message.',
        complexity: sizeOfPage(DEFAULT_MESSAGES),
        args: {
          rootsOnly: t.arg.boolean({
            defaultValue: false,
            description: 'If true, omits replies in threads; see `Message.thread`.',
          }),
        },
        async resolve({ id: parentId }, { rootsOnly, ...page }, { loaders }) {
          const request = { ...messagesRequest(page), ...(rootsOnly === true ? { rootsOnly } : {}) }
          const found = await loaders.messagePages.load({ parentId, request })
          return connectionOf(found, ({ id }) => id)
        },
      },
      MessageConnection,
      MessageEdge,
    ),
    lastMessage: t.field({
      type: Message,
      nullable: true,
      resolve: ({ id }, _, { loaders }) => loaders.lastMessages.load(id),
    }),
    streamCursor: t.field({
      type: 'StreamCursor',
      description:
        'The position from which to resume `spaceMessages`: pass it as `after`. The server reads this position before anything else of the space, so `messages` in the same operation contains everything up to it, including the text of STREAMING messages.',
      resolve: ({ id }, _, { loaders }) => loaders.spaceCursors.load(id),
    }),
    standingGrants: t.field({
      type: [StandingGrant],
      complexity: { field: 5, multiplier: 5 },
      description:
        'The newest 100 standing grants for calls that are shown in this space, newest first, including those that have ended.',
      resolve: ({ id }, _, { loaders }) => loaders.grantsOfSpaces.load(id),
    }),
    createdAt: t.expose('createdAt', { type: 'DateTime' }),
  }),
})

/** The following fields depend on the viewer's read marker. */
builder.objectFields(Space, (t) => ({
  firstUnreadMessage: t.field({
    type: Message,
    nullable: true,
    complexity: { field: 5, multiplier: 1 },
    description:
      "The first message, not counting replies in threads, that somebody else sent after the viewer's read marker. Null if there is none or the viewer is not human.",
    resolve: ({ id }, _, { loaders }) => loaders.firstUnread.load(id),
  }),
  unreadCount: t.int({
    // The field is expensive because messages are read to count them.
    complexity: 10,
    description:
      "Number of messages after the viewer's read marker that others sent. Replies count after the viewer's read marker of their thread, if the viewer takes part in the thread or is mentioned. 0 if the viewer is not human.",
    resolve: async ({ id }, _, { loaders }) => (await loaders.unread.load(id)).messages,
  }),
  unreadMentions: t.int({
    complexity: 10,
    description:
      "Number of messages after the viewer's read marker that others sent and that mention the viewer. 0 if the viewer is not human.",
    resolve: async ({ id }, _, { loaders }) => (await loaders.unread.load(id)).mentions,
  }),
}))

builder.queryFields((t) => ({
  spaces: t.connection(
    {
      type: Space,
      description: "The viewer's spaces, newest first. An admin sees all spaces.",
      complexity: sizeOfPage(),
      async resolve(_, page, { domain, viewer, loaders }) {
        const { items, ...ends } = await domain.spaces.page(viewer, idPageRequest('spc', page))
        return connectionOf({ ...ends, items: await loaders.seenSpaces(items) }, idCursor)
      },
    },
    { name: 'SpaceConnection' },
    { name: 'SpaceEdge' },
  ),
  space: t.field({
    type: Space,
    nullable: true,
    description: 'Null if the space does not exist or the viewer may not see it.',
    args: { id: t.arg.id({ required: true }) },
    resolve: (_, { id }, { loaders }) => loaders.visible.spaces.load(id),
  }),
}))
