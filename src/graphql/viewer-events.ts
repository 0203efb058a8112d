import type { NoticeIds } from '../rules/notices.ts'
import { loadExisting } from './batch.ts'
import { builder } from './builder.ts'
import { Space, StandingGrant, ToolCall, Viewer } from './refs.ts'
import { type ViewerEvent as AnyViewerEvent, itself } from './streams.ts'

const ViewerEvent = builder.interfaceRef<AnyViewerEvent>('ViewerEvent').implement({
  description: "A change in one of the viewer's spaces, for a list of spaces with unread counts.",
  resolveType: ({ type }) => type,
  fields: (t) => ({ at: t.expose('at', { type: 'DateTime' }) }),
})

type OfSpace = { at: Date; type: string; spaceId: string } & AnyViewerEvent
type OfToolCall = { at: Date; type: string; toolCallId: string } & AnyViewerEvent

builder.objectRef<AnyViewerEvent>('ViewerSnapshot').implement({
  description: 'The first event of every subscription, including one after a reconnect.',
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
  "The space's name, last message, unread count or read marker changed. At most 2 events a second for one space.",
)
toolCallEvent('ViewerToolCallWaiting')
toolCallEvent('ViewerToolCallSettled')
toolCallEvent(
  'ViewerToolCallChanged',
  'The approval or the claim of a tool call changed. Delivered for calls that the viewer may answer, or could answer before the change.',
)

builder
  .objectRef<{ at: Date; type: string; grantId: string } & AnyViewerEvent>('ViewerStandingGrantChanged')
  .implement({
    description: 'A standing grant that the viewer may see was proposed, approved, denied or used, or has ended.',
    interfaces: [ViewerEvent],
    fields: (t) => ({
      standingGrant: t.field({
        type: StandingGrant,
        resolve: ({ grantId }, _, { loaders }) => loadExisting(loaders.standingGrants, grantId),
      }),
    }),
  })

builder.objectRef<OfSpace>('ViewerSpaceRemoved').implement({
  interfaces: [ViewerEvent],
  fields: (t) => ({ spaceId: t.exposeID('spaceId') }),
})

const NoticeKindType = builder.enumType('NoticeKind', {
  values: {
    DECISION_WAITING: { description: 'A tool call waits for a decision of the viewer.' },
    MENTION: { description: 'A message mentions the viewer.' },
    MESSAGE: {
      description: 'A message that does not mention the viewer, in a space for which the viewer set the level ALL.',
    },
    RUN_FAILED: { description: 'A run that worked on behalf of the viewer failed.' },
  } as const,
})

builder.objectRef<{ type: 'ViewerNotice'; at: Date } & NoticeIds & AnyViewerEvent>('ViewerNotice').implement({
  description: 'A notification for the viewer.',
  interfaces: [ViewerEvent],
  fields: (t) => ({
    kind: t.expose('kind', { type: NoticeKindType }),
    spaceId: t.exposeID('spaceId', {
      nullable: true,
      description: 'The space of the message, call or run. Null if the viewer is not a member of it.',
    }),
    messageId: t.exposeID('messageId', { nullable: true }),
    toolCallId: t.exposeID('toolCallId', { nullable: true }),
    runId: t.exposeID('runId', { nullable: true }),
  }),
})

builder.subscriptionField('viewerEvents', (t) =>
  t.field({
    type: ViewerEvent,
    description:
      'Events in all spaces of the viewer: first a snapshot, then changes. The events have no cursors; after a reconnect, a new snapshot replaces the earlier state.',
    subscribe: (_, __, { streams, ...watcher }) => streams.viewerEvents(watcher),
    resolve: itself,
  }),
)
