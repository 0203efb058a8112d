import { loadOptional } from './batch.ts'
import { builder } from './builder.ts'
import { connectionOf, DEFAULT_MESSAGES, idCursor, idPageRequest, messagesRequest, sizeOfPage } from './connections.ts'
import { RoutingType } from './enums.ts'
import { Agent, Entity, Message, Node, Space } from './refs.ts'

Space.implement({
  interfaces: [Node],
  fields: (t) => ({
    name: t.exposeString('name'),
    description: t.exposeString('description', { nullable: true }),
    routing: t.expose('routing', { type: RoutingType }),
    confidential: t.exposeBoolean('confidential', {
      description: 'What is said here is carried only to where every human who hears it belongs here too.',
    }),
    adminAgent: t.field({
      type: Agent,
      nullable: true,
      description: "The agent that human messages go to under ADMIN routing; a space's only agent where none is set.",
      resolve: async ({ id }, _, { loaders }) => loadOptional(loaders.entities, await loaders.adminAgents.load(id)),
    }),
    members: t.field({
      type: [Entity],
      description: 'At most 500.',
      resolve: ({ id }, _, { loaders }) => loaders.members.load(id),
    }),
    messages: t.connection(
      {
        type: Message,
        description:
          "In `seq` order. With neither `first` nor `last`, the last 50. A message's id serves as `after` and `before` too.",
        complexity: sizeOfPage(DEFAULT_MESSAGES),
        async resolve({ id: parentId }, page, { loaders }) {
          const found = await loaders.messagePages.load({ parentId, request: messagesRequest(page) })
          return connectionOf(found, ({ id }) => id)
        },
      },
      { name: 'MessageConnection' },
      { name: 'MessageEdge' },
    ),
    lastMessage: t.field({
      type: Message,
      nullable: true,
      resolve: ({ id }, _, { loaders }) => loaders.lastMessages.load(id),
    }),
    streamCursor: t.field({
      type: 'StreamCursor',
      description:
        'Resume point for `spaceMessages`. Taken before anything else of this space is read in the operation, so that `messages` holds at least everything up to it, the text of STREAMING messages included.',
      resolve: ({ id }, _, { loaders }) => loaders.spaceCursors.load(id),
    }),
    createdAt: t.expose('createdAt', { type: 'DateTime' }),
  }),
})

/** What each viewer has read of it. */
builder.objectFields(Space, (t) => ({
  firstUnreadMessage: t.field({
    type: Message,
    nullable: true,
    complexity: { field: 5, multiplier: 1 },
    description:
      "The first message after the viewer's read marker that is not the viewer's own; null when there is none, or no human views.",
    resolve: ({ id }, _, { loaders }) => loaders.firstUnread.load(id),
  }),
  unreadCount: t.int({
    // It counts messages.
    complexity: 10,
    description: "Messages after the viewer's read marker, the viewer's own left out; 0 where no human views.",
    resolve: ({ id }, _, { loaders }) => loaders.unreadCounts.load(id),
  }),
}))

builder.queryFields((t) => ({
  spaces: t.connection(
    {
      type: Space,
      description: "The viewer's spaces, newest first; an admin sees all.",
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
    description: 'Null where there is none, or none that the viewer may see.',
    args: { id: t.arg.id({ required: true }) },
    resolve: (_, { id }, { loaders }) => loaders.visible.spaces.load(id),
  }),
}))
