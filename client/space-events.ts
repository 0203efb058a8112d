import type { LiveMessageFragment, LivePartFragment, LiveSpaceMessagesSubscription } from './generated/graphql.ts'

/** A message with its parts in order. `status` is STREAMING while the message is being written. */
export type Message = LiveMessageFragment
/** A text or a visible tool call. */
export type MessagePart = LivePartFragment
/** An event of `spaceMessages` with the fields that this client selects. */
export type SpaceEvent = LiveSpaceMessagesSubscription['spaceMessages']
export type TextDelta = Extract<SpaceEvent, { __typename: 'MessageTextDelta' }>
export type TextReplacement = Extract<SpaceEvent, { __typename: 'MessageTextReplaced' }>

const CALL_ORDER = ['STREAMING', 'RUNNING', 'WAITING']

/** Whether a message is a reply. */
export const isReply = ({ threadRootId }: Pick<Message, 'threadRootId'>) => threadRootId !== null

/** Returns the id of the message that started the reply's thread; null outside of threads. */
export const threadOf = ({ threadRootId }: Pick<Message, 'threadRootId'>): string | null => threadRootId

export const isWhole = ({ status }: Pick<Message, 'status'>) => status === 'COMPLETE' || status === 'INTERRUPTED'

/**
 * Merges two versions of a message. A complete message does not become incomplete again. The loaded text of an
 * incomplete message may be shorter than the text from the deltas, so the longer text is kept.
 */
export function newerOf(known: Message | undefined, message: Message): Message {
  if (known === undefined || isWhole(message)) return message
  if (isWhole(known)) return known
  let { parts } = message
  for (const part of known.parts) parts = withPart(parts, part)
  return { ...message, parts }
}

/** Returns the parts with one added or replaced by a newer version. */
export function withPart(parts: MessagePart[], part: MessagePart): MessagePart[] {
  const known = parts.find(({ index }) => index === part.index)
  if (known === undefined) return [...parts, part].sort((one, other) => one.index - other.index)
  const further = furtherOf(known, part)
  return further === known ? parts : parts.map((one) => (one === known ? further : one))
}

/**
 * Returns the parts with a delta applied. Returns the same array if it already contains the delta, and null if text
 * before the delta is missing.
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

/**
 * Returns the parts with a replacement applied. Returns the same array if the text already contains the replacement,
 * and null if text before it is missing.
 */
export function withReplacement(
  parts: MessagePart[],
  { partIndex, offset, text }: TextReplacement,
): MessagePart[] | null {
  const part = parts.find(({ index }) => index === partIndex)
  if (part !== undefined && part.__typename !== 'TextPart') return parts
  if (part === undefined || part.text.length < offset) return null
  // The text already contains this replacement if it was loaded after the event. An empty replacement, which only shortens the
  // text, cannot be detected in this way.
  if (text !== '' && part.text.startsWith(text, offset)) return parts
  const replaced = { ...part, text: part.text.slice(0, offset) + text }
  return parts.map((one) => (one === part ? replaced : one))
}

/** Returns the newer of two versions of a part: the longer text, or the call with the later status. */
function furtherOf(known: MessagePart, part: MessagePart): MessagePart {
  if (known.__typename === 'TextPart' && part.__typename === 'TextPart') {
    return part.text.length > known.text.length ? part : known
  }
  if (known.__typename === 'ToolCallPart' && part.__typename === 'ToolCallPart') {
    return placeOf(part.toolCall.status) >= placeOf(known.toolCall.status) ? part : known
  }
  return part
}

/** Returns the position of a status in the order in which a call passes through them. A status that is not listed is final. */
function placeOf(status: string): number {
  const place = CALL_ORDER.indexOf(status)
  return place < 0 ? CALL_ORDER.length : place
}
