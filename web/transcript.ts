import type {
  ConsoleMessageFragment,
  ConsoleMessagesFragment,
  ConsolePartFragment,
  ConsoleSpaceFragment,
  ConsoleSpaceMessagesSubscription,
} from '../generated/graphql.ts'

export type Message = ConsoleMessageFragment
export type Part = ConsolePartFragment
export type SpaceEvent = ConsoleSpaceMessagesSubscription['spaceMessages']
type TextDelta = Extract<SpaceEvent, { __typename: 'MessageTextDelta' }>

/** What is known of a space: itself, and its messages by id. */
export interface Transcript {
  space: ConsoleSpaceFragment | null
  messages: Map<string, Message>
  hasEarlier: boolean
}

/** What an event changed: one message, everything, the space alone, or nothing. */
export type Change = { type: 'message'; message: Message } | { type: 'all' } | { type: 'space' } | { type: 'none' }

const NOTHING: Change = { type: 'none' }

export function createTranscript(): Transcript {
  return { space: null, messages: new Map(), hasEarlier: false }
}

/** Takes an event in. One that comes twice, as after a reconnect it may, changes nothing; one that is not known is let go. */
export function apply(transcript: Transcript, event: SpaceEvent): Change {
  const { messages } = transcript
  switch (event.__typename) {
    case 'SpaceSnapshot':
      transcript.space = event.space
      messages.clear()
      addMessages(transcript, event.space.messages)
      return { type: 'all' }
    case 'MessagePosted':
    case 'MessageUpdated':
    case 'MessageFinished':
      return put(messages, grown(messages.get(event.message.id), event.message))
    case 'MessageTextDelta': {
      const message = messages.get(event.messageId)
      const parts = message && withDelta(message.parts, event)
      return message && parts ? put(messages, { ...message, parts }) : NOTHING
    }
    case 'MessagePartChanged': {
      const message = messages.get(event.messageId)
      return message ? put(messages, { ...message, parts: withPart(message.parts, event.part) }) : NOTHING
    }
    case 'MemberJoined':
    case 'MemberLeft':
      return changeMembers(transcript, event)
    case 'SpaceUpdated':
      transcript.space = event.space
      return { type: 'space' }
    default:
      return NOTHING
  }
}

/** Takes a page of messages in, the newest or earlier ones. */
export function addMessages(transcript: Transcript, { edges, pageInfo }: ConsoleMessagesFragment): void {
  for (const { node } of edges) transcript.messages.set(node.id, node)
  transcript.hasEarlier = pageInfo.hasPreviousPage
}

export function inOrder({ messages }: Transcript): Message[] {
  return [...messages.values()].sort((one, other) => one.seq - other.seq)
}

function put(messages: Map<string, Message>, message: Message): Change {
  messages.set(message.id, message)
  return { type: 'message', message }
}

/** A message while it is written may come with less of its text than the deltas have brought: that is kept. */
function grown(known: Message | undefined, message: Message): Message {
  if (known === undefined || message.status !== 'STREAMING') return message
  const parts = [...message.parts]
  for (const part of known.parts) {
    const index = parts.findIndex(({ id }) => id === part.id)
    const newer = parts[index]
    if (newer === undefined) parts.push(part)
    else if (part.__typename === 'TextPart' && newer.__typename === 'TextPart' && part.text.startsWith(newer.text)) {
      parts[index] = part
    }
  }
  return { ...message, parts: parts.sort((one, other) => one.index - other.index) }
}

/** The parts with what a delta brings; null where it brings nothing new, or does not fit what is known. */
function withDelta(parts: Part[], { messageId, partIndex, offset, delta }: TextDelta): Part[] | null {
  const part = parts.find(({ index }) => index === partIndex)
  if (part !== undefined && part.__typename !== 'TextPart') return null
  const known = part?.text ?? ''
  const news = delta.slice(known.length - offset)
  if (offset > known.length || news === '') return null
  return withPart(parts, {
    __typename: 'TextPart',
    id: part?.id ?? `${messageId}:${partIndex}`,
    index: partIndex,
    text: known + news,
  })
}

function withPart(parts: Part[], part: Part): Part[] {
  return [...parts.filter(({ index }) => index !== part.index), part].sort((one, other) => one.index - other.index)
}

function changeMembers(
  transcript: Transcript,
  { __typename, entity }: Extract<SpaceEvent, { __typename: 'MemberJoined' | 'MemberLeft' }>,
): Change {
  const { space } = transcript
  if (space === null) return NOTHING
  const others = space.members.filter(({ id }) => id !== entity.id)
  transcript.space = { ...space, members: __typename === 'MemberJoined' ? [...others, entity] : others }
  return { type: 'space' }
}
