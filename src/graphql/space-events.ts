import type { MemberPresence as AnyMemberPresence } from '../spaces/presence.ts'
import { askedOfEvent } from './asked.ts'
import { loadExisting } from './batch.ts'
import { builder } from './builder.ts'
import { PresenceType } from './enums.ts'
import { Entity, Message, MessagePart, Space, TextPart } from './refs.ts'
import { type SpaceEvent as AnySpaceEvent, itself } from './streams.ts'

type Shape<T extends AnySpaceEvent['type']> = Extract<AnySpaceEvent, { type: T }>

const SpaceEvent = builder.interfaceRef<AnySpaceEvent>('SpaceEvent').implement({
  description:
    'An event of a space. Events arrive in order. Objects in an event have their state at delivery, not at the time of the event.',
  resolveType: ({ type }) => type,
  fields: (t) => ({
    cursor: t.expose('cursor', { type: 'StreamCursor' }),
    at: t.expose('at', { type: 'DateTime' }),
    spaceId: t.exposeID('spaceId'),
  }),
})

const event = <T extends AnySpaceEvent['type']>(type: T) => builder.objectRef<Shape<T>>(type)

/** Events without fields of their own. They share an implementation. */
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
  'The current state of the space, from which later events continue. Sent first if `after` is absent or older than the stored events, so that clients always notice a gap.',
)
spaceEvent('SpaceUpdated', "The space's name, description, routing or admin agent changed.")
messageEvent(
  'MessagePosted',
  "A new message. An agent's message starts with status STREAMING and grows by MessageTextDelta, MessageTextReplaced and MessagePartChanged.",
)
messageEvent(
  'MessageUpdated',
  'The status, outcomes, `rootUsage`, text or reactions of the message changed, or the message was deleted.',
)
messageEvent('MessageFinished', 'The message is complete: no more parts follow.')
memberEvent('MemberJoined')
memberEvent('MemberLeft')

event('MessageTextDelta').implement({
  description:
    'New text of a streaming message. Insert `delta` at UTF-16 code unit `offset` of text part `partIndex`; create the part if it does not exist. If `offset` is less than the length of your text, drop the overlap, so that applying a delta twice changes nothing. A delta never splits a surrogate pair.',
  interfaces: [SpaceEvent],
  fields: (t) => ({
    messageId: t.exposeID('messageId'),
    partIndex: t.exposeInt('partIndex'),
    offset: t.exposeInt('offset'),
    delta: t.exposeString('delta'),
    part: t.field({
      type: TextPart,
      description:
        'The part at the time of delivery; contains at least this delta and the text before it. A client with a normalized cache needs only this field.',
      async resolve({ messageId, partIndex: index, offset, delta }, _, { loaders }) {
        const part = (await loaders.messages.load(messageId))?.parts[index]
        const known = part?.type === 'text' ? part.text : ''
        const text = known.length < offset + delta.length ? known.slice(0, offset) + delta : known
        return { messageId, index, part: { type: 'text' as const, text } }
      },
    }),
  }),
})

event('MessageTextReplaced').implement({
  description:
    'Replace the text of a streaming part, from UTF-16 code unit `offset` to its end, with `text`. Sent when a retried model call has generated different text.',
  interfaces: [SpaceEvent],
  fields: (t) => ({
    messageId: t.exposeID('messageId'),
    partId: t.id({ resolve: ({ messageId, partIndex }) => `${messageId}:${partIndex}` }),
    partIndex: t.exposeInt('partIndex'),
    offset: t.exposeInt('offset'),
    text: t.exposeString('text'),
    part: t.field({
      type: TextPart,
      description: 'The part at the time of delivery. A client with a normalized cache needs only this field.',
      async resolve({ messageId, partIndex: index, text }, _, { loaders }) {
        const part = (await loaders.messages.load(messageId))?.parts[index]
        return { messageId, index, part: { type: 'text' as const, text: part?.type === 'text' ? part.text : text } }
      },
    }),
  }),
})

event('MessagePartChanged').implement({
  description:
    'A part was added or changed: the input, status or output of a tool call, or a text part that is now complete. Parts are never removed.',
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

const MemberPresence = builder.objectRef<AnyMemberPresence>('MemberPresence').implement({
  fields: (t) => ({
    entity: t.field({ type: Entity, resolve: ({ member }) => member }),
    presence: t.expose('presence', { type: PresenceType }),
    typingUntil: t.expose('typingUntil', { type: 'DateTime', nullable: true }),
  }),
})

event('MemberPresenceChanged').implement({
  description:
    'Presence and typing of human members, sent at most once a second for each space, and only if the operation selects `changes`. The event is neither stored nor replayed; `cursor` is that of the last stored event. After a reconnect, read `Human.presence` again.',
  interfaces: [SpaceEvent],
  fields: (t) => ({ changes: t.expose('changes', { type: [MemberPresence] }) }),
})

builder.subscriptionField('spaceMessages', (t) =>
  t.field({
    type: SpaceEvent,
    description:
      'Events of a space, starting with a snapshot or, if `after` is given, from that position. Ends with an error when the viewer is no longer a member.',
    args: { spaceId: t.arg.id({ required: true }), after: t.arg({ type: 'StreamCursor' }) },
    subscribe: (_, { spaceId, after }, { streams, ...watcher }, info) => {
      const selectsPresence = askedOfEvent(info, 'MemberPresenceChanged').has('changes')
      return streams.spaceMessages(watcher, { spaceId, after: after ?? null, selectsPresence })
    },
    resolve: itself,
  }),
)
