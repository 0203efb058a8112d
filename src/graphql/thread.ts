import { loadOptional } from './batch.ts'
import { builder } from './builder.ts'
import { connectionOf, DEFAULT_MESSAGES, messagesRequest, sizeOfPage } from './connections.ts'
import { MessageConnection, MessageEdge } from './message-connection.ts'
import { Message, Space } from './refs.ts'
import type * as shapes from './shapes.ts'

const Thread = builder.objectRef<shapes.Thread>('Thread').implement({
  description: 'The replies to a message, and the replies to these replies. Replies are messages of the space.',
  fields: (t) => ({
    rootId: t.exposeID('threadRootId', { description: 'The id of the first message.' }),
    root: t.field({
      type: Message,
      nullable: true,
      description: 'The first message; null once retention has deleted it.',
      resolve: ({ threadRootId }, _, { loaders }) => loadOptional(loaders.messages, threadRootId),
    }),
    replyCount: t.exposeInt('replyCount', { description: 'The number of replies, counted up to 10,000.' }),
    lastReplyAt: t.expose('lastReplyAt', { type: 'DateTime', nullable: true }),
    unreadCount: t.int({
      complexity: 10,
      description:
        "Number of replies by others after the viewer's read marker of the thread, among the newest 1,000 replies. `markRead` with a reply moves the marker. 0 if the viewer is not human.",
      resolve: ({ threadRootId }, _, { loaders, viewer }) =>
        viewer.scope === 'HUMAN' ? loaders.ofHumans.unreadInThreads.load({ humanId: viewer.id, threadRootId }) : 0,
    }),
    messages: t.connection(
      {
        type: Message,
        description:
          'The replies in order of `seq`, without the first message. The arguments are the same as those of `Space.messages`.',
        complexity: sizeOfPage(DEFAULT_MESSAGES),
        async resolve({ threadRootId: parentId }, page, { loaders }) {
          const found = await loaders.replyPages.load({ parentId, request: messagesRequest(page) })
          return connectionOf(found, ({ id }) => id)
        },
      },
      MessageConnection,
      MessageEdge,
    ),
  }),
})

// A viewer who sees a message may also see the other messages of the space. Some of them may be missing, because
// retention deleted them.
builder.objectFields(Message, (t) => ({
  replyTo: t.field({
    type: Message,
    nullable: true,
    description: 'The message that this one replies to.',
    resolve: ({ replyToId }, _, { loaders }) => loadOptional(loaders.messages, replyToId),
  }),
  threadRoot: t.field({
    type: Message,
    nullable: true,
    description: 'The first message of the thread. Null outside of threads, and for that message itself.',
    resolve: ({ threadRootId }, _, { loaders }) => loadOptional(loaders.messages, threadRootId),
  }),
  threadRootId: t.exposeID('threadRootId', {
    nullable: true,
    description: 'The id of `threadRoot`, even after retention has deleted that message.',
  }),
  thread: t.field({
    type: Thread,
    nullable: true,
    description: 'The thread that this message starts; null if there is none.',
    complexity: { field: 10, multiplier: 1 },
    resolve: ({ id, threadRootId }, _, { loaders }) => (threadRootId === null ? loaders.threads.load(id) : null),
  }),
}))

builder.objectFields(Space, (t) => ({
  thread: t.field({
    type: Thread,
    nullable: true,
    complexity: { field: 10, multiplier: 1 },
    description:
      'The thread of a message of this space, even after retention has deleted that message. Null if it has no replies.',
    args: { rootId: t.arg.id({ required: true }) },
    async resolve({ id }, { rootId }, { loaders }) {
      const thread = await loaders.threads.load(rootId)
      return thread?.spaceId === id ? thread : null
    },
  }),
  unreadThreads: t.field({
    type: [Thread],
    complexity: { field: 20, multiplier: 20 },
    description:
      'The threads with replies that `unreadCount` counts, the newest reply first; at most 20. Empty if the viewer is not human.',
    async resolve({ id }, _, { loaders }) {
      const rootIds = await loaders.unreadThreads.load(id)
      const threads = await Promise.all(rootIds.map((rootId) => loaders.threads.load(rootId)))
      return threads.filter((thread) => thread !== null)
    },
  }),
}))
