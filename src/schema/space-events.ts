import { loadExisting } from './batch.ts'
import { builder } from './builder.ts'
import { Entity, Message, MessagePart, Space, TextPart } from './refs.ts'
import { type SpaceEvent as AnySpaceEvent, itself } from './streams.ts'

type Shape<T extends AnySpaceEvent['type']> = Extract<AnySpaceEvent, { type: T }>

const SpaceEvent = builder.interfaceRef<AnySpaceEvent>('SpaceEvent').implement({
  description:
    'Something that happened in a space, in order. Objects in an event are as they are when it is delivered, not as they were then.',
  resolveType: ({ type }) => type,
  fields: (t) => ({
    cursor: t.expose('cursor', { type: 'StreamCursor' }),
    at: t.expose('at', { type: 'DateTime' }),
    spaceId: t.exposeID('spaceId'),
  }),
})

const event = <T extends AnySpaceEvent['type']>(type: T) => builder.objectRef<Shape<T>>(type)

/** Events that differ in name alone are made together. */
type OfSpace = 'SpaceSnapshot' | 'SpaceUpdated'
const spaceEvent = (type: OfSpace, description: string) =>
  event<OfSpace>(type).implement({
    description,
    interfaces: [SpaceEvent],
    fields: (t) => ({
      space: t.field({
        type: Space,
        resolve: ({ spaceId }, _, { loaders }) => loadExisting(loaders.spaces, spaceId),
      }),
    }),
  })

type OfMessage = 'MessagePosted' | 'MessageUpdated' | 'MessageFinished'
const messageEvent = (type: OfMessage, description: string) =>
  event<OfMessage>(type).implement({
    description,
    interfaces: [SpaceEvent],
    fields: (t) => ({
      message: t.field({
        type: Message,
        resolve: ({ messageId }, _, { loaders }) => loadExisting(loaders.messages, messageId),
      }),
    }),
  })

type OfMember = 'MemberJoined' | 'MemberLeft'
const memberEvent = (type: OfMember) =>
  event<OfMember>(type).implement({
    interfaces: [SpaceEvent],
    fields: (t) => ({
      entity: t.field({
        type: Entity,
        resolve: ({ entityId }, _, { loaders }) => loadExisting(loaders.entities, entityId),
      }),
    }),
  })

spaceEvent(
  'SpaceSnapshot',
  'The space as it is now; what follows goes on from here. The first event where `after` is absent or older than what is kept. Never a silent gap.',
)
spaceEvent('SpaceUpdated', 'Its name, description, routing or admin agent changed.')
messageEvent(
  'MessagePosted',
  "A message exists. An agent's arrives with status STREAMING and grows by the events below.",
)
messageEvent('MessageUpdated', 'Its status or its outcomes changed.')
messageEvent('MessageFinished', 'No more parts will come.')
memberEvent('MemberJoined')
memberEvent('MemberLeft')

event('MessageTextDelta').implement({
  description:
    '`delta` belongs at UTF-16 code unit `offset` of text part `partIndex`, which it begins when there is no such part yet. Where `offset` is less than the known length the overlap is dropped: applying one twice changes nothing. A delta never splits a surrogate pair.',
  interfaces: [SpaceEvent],
  fields: (t) => ({
    messageId: t.exposeID('messageId'),
    partIndex: t.exposeInt('partIndex'),
    offset: t.exposeInt('offset'),
    delta: t.exposeString('delta'),
    part: t.field({
      type: TextPart,
      description:
        'The part as it stands at delivery, at least as long as this delta: enough for a client that normalises by id.',
      async resolve({ messageId, partIndex: index, offset, delta }, _, { loaders }) {
        const part = (await loaders.messages.load(messageId))?.parts[index]
        const known = part?.type === 'text' ? part.text : ''
        const text = known.length < offset + delta.length ? known.slice(0, offset) + delta : known
        return { messageId, index, part: { type: 'text' as const, text } }
      },
    }),
  }),
})

event('MessagePartChanged').implement({
  description:
    "A part was added or changed: a tool call's input, status or output, or a text part that is now whole. Parts are never removed.",
  interfaces: [SpaceEvent],
  fields: (t) => ({
    messageId: t.exposeID('messageId'),
    part: t.field({
      type: MessagePart,
      async resolve({ messageId, partIndex: index }, _, { loaders }) {
        const message = await loaders.messages.load(messageId)
        return { messageId, index, part: message?.parts[index] ?? { type: 'text', text: '' } }
      },
    }),
  }),
})

builder.subscriptionField('spaceMessages', (t) =>
  t.field({
    type: SpaceEvent,
    description:
      'A space, live: a snapshot first, or what came after `after`. Ends with an error when the viewer stops being a member.',
    args: { spaceId: t.arg.id({ required: true }), after: t.arg({ type: 'StreamCursor' }) },
    subscribe: (_, { spaceId, after }, { streams, ...watcher }) =>
      streams.spaceMessages(watcher, { spaceId, after: after ?? null }),
    resolve: itself,
  }),
)
