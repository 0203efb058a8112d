import type { LiveMessageFragment, LivePartFragment, LiveSpaceMessagesSubscription } from './generated/graphql.ts'

/** A message as it is known: its parts in order, `status` STREAMING while it is written. */
export type Message = LiveMessageFragment
/** A text, or a tool call that shows. */
export type MessagePart = LivePartFragment
/** An event of `spaceMessages`, as the live module selects it. */
export type SpaceEvent = LiveSpaceMessagesSubscription['spaceMessages']
export type TextDelta = Extract<SpaceEvent, { __typename: 'MessageTextDelta' }>

const CALL_ORDER = ['STREAMING', 'RUNNING', 'WAITING']

export const isWhole = ({ status }: Pick<Message, 'status'>) => status === 'COMPLETE' || status === 'INTERRUPTED'

/**
 * What is known of a message, put together with what came of it later: a whole message is not unfinished again, and a text
 * while it is written may come with less than the deltas have brought: that is kept.
 */
export function newerOf(known: Message | undefined, message: Message): Message {
  if (known === undefined || isWhole(message)) return message
  if (isWhole(known)) return known
  let { parts } = message
  for (const part of known.parts) parts = withPart(parts, part)
  return { ...message, parts }
}

/** The parts with one more, or with one of them as it is further on. */
export function withPart(parts: MessagePart[], part: MessagePart): MessagePart[] {
  const known = parts.find(({ index }) => index === part.index)
  if (known === undefined) return [...parts, part].sort((one, other) => one.index - other.index)
  const further = furtherOf(known, part)
  return further === known ? parts : parts.map((one) => (one === known ? further : one))
}

/**
 * The parts with what a delta brings; the same where it brings nothing that is not known; null where something before it
 * is missing.
 */
export function withDelta(
  parts: MessagePart[],
  { messageId, partIndex, offset, delta }: TextDelta,
): MessagePart[] | null {
  const part = parts.find(({ index }) => index === partIndex)
  if (part !== undefined && part.__typename !== 'TextPart') return parts
  const known = part?.text ?? ''
  if (offset > known.length) return null
  const rest = delta.slice(known.length - offset)
  if (rest === '') return parts
  const id = part?.id ?? `${messageId}:${partIndex}`
  return withPart(parts, { __typename: 'TextPart', id, index: partIndex, text: known + rest })
}

/** Of two versions of one part, the one that is further on: the longer text, the call that has come farther. */
function furtherOf(known: MessagePart, part: MessagePart): MessagePart {
  if (known.__typename === 'TextPart' && part.__typename === 'TextPart') {
    return part.text.length > known.text.length ? part : known
  }
  if (known.__typename === 'ToolCallPart' && part.__typename === 'ToolCallPart') {
    return placeOf(part.toolCall.status) >= placeOf(known.toolCall.status) ? part : known
  }
  return part
}

/** How far a call has come; everything but what is under way is an end. */
function placeOf(status: string): number {
  const place = CALL_ORDER.indexOf(status)
  return place < 0 ? CALL_ORDER.length : place
}
