import { loadExisting } from './batch.ts'
import { builder } from './builder.ts'
import { Space, ToolCall, Viewer } from './refs.ts'
import { type ViewerEvent as AnyViewerEvent, itself } from './streams.ts'

const ViewerEvent = builder.interfaceRef<AnyViewerEvent>('ViewerEvent').implement({
  description: "What a side bar needs, over all the viewer's spaces.",
  resolveType: ({ type }) => type,
  fields: (t) => ({ at: t.expose('at', { type: 'DateTime' }) }),
})

type OfSpace = { at: Date; type: string; spaceId: string } & AnyViewerEvent
type OfToolCall = { at: Date; type: string; toolCallId: string } & AnyViewerEvent

builder.objectRef<AnyViewerEvent>('ViewerSnapshot').implement({
  description: 'First, and so after every reconnect.',
  interfaces: [ViewerEvent],
  fields: (t) => ({ viewer: t.field({ type: Viewer, resolve: (_, __, { viewer }) => viewer }) }),
})

const spaceEvent = (type: string, description?: string) =>
  builder.objectRef<OfSpace>(type).implement({
    ...(description ? { description } : {}),
    interfaces: [ViewerEvent],
    fields: (t) => ({
      space: t.field({
        type: Space,
        resolve: ({ spaceId }, _, { loaders }) => loadExisting(loaders.spaces, spaceId),
      }),
    }),
  })

const toolCallEvent = (type: string, description?: string) =>
  builder.objectRef<OfToolCall>(type).implement({
    ...(description ? { description } : {}),
    interfaces: [ViewerEvent],
    fields: (t) => ({
      toolCall: t.field({
        type: ToolCall,
        resolve: ({ toolCallId }, _, { loaders }) => loadExisting(loaders.toolCalls, toolCallId),
      }),
    }),
  })

spaceEvent('ViewerSpaceAdded')
spaceEvent(
  'ViewerSpaceChanged',
  'Its name, last message, unread count or read marker changed; joined to at most 2 a second for one space.',
)
toolCallEvent('ViewerToolCallWaiting')
toolCallEvent('ViewerToolCallSettled')
toolCallEvent('ViewerToolCallChanged', 'As RunToolCallChanged, for a call that the viewer may answer, or could.')

builder.objectRef<OfSpace>('ViewerSpaceRemoved').implement({
  interfaces: [ViewerEvent],
  fields: (t) => ({ spaceId: t.exposeID('spaceId') }),
})

builder.subscriptionField('viewerEvents', (t) =>
  t.field({
    type: ViewerEvent,
    subscribe: (_, __, { streams, ...watcher }) => streams.viewerEvents(watcher),
    resolve: itself,
  }),
)
