import type { AssistantMessage, Message, Metadata, ToolMessage, UserMessage } from '@ag-ui/core'
import { jsonBytes } from '../../lib/json.ts'
import { isSettledCall } from '../../rules/statuses.ts'
import type { Sender, ShownCall, ShownMessage, ShownPart } from '../operations.ts'

/**
 * The prefix of the idempotency keys of messages from this endpoint. The client's id of the message follows the
 * prefix.
 */
const KEY_PREFIX = 'ag-ui:'

export const keyOf = (clientId: string): string => KEY_PREFIX + clientId

/** Returns the id that a client gave to the message of its human; null for any other message. */
export function clientIdOf({ idempotencyKey }: Pick<ShownMessage, 'idempotencyKey'>): string | null {
  return idempotencyKey?.startsWith(KEY_PREFIX) === true ? idempotencyKey.slice(KEY_PREFIX.length) : null
}

/** Returns the id of the AG-UI message for a part. For the first part, it is the id of Parley's message. */
export const partId = (messageId: string, index: number): string => (index === 0 ? messageId : `${messageId}:${index}`)

export const resultId = (callId: string): string => `${callId}:result`

/**
 * Returns the metadata of a message. AG-UI has no concept of members, so the metadata contains the sender. The
 * sender's name is also in the field `name`.
 */
export function metadataOf(messageId: string, { id, name, kind }: Sender): Metadata {
  return { parley: { messageId, sender: { id, name, kind } } }
}

/** Returns the input of a call as text. If its JSON exceeds `maxBytes`, returns an error as text instead. */
export const inputOf = ({ input }: ShownCall, maxBytes: number): string =>
  inBytes(JSON.stringify(input ?? {}), maxBytes)

/** Returns the result of a call as text. If its JSON exceeds `maxBytes`, returns an error as text instead. */
export function resultOf({ status, output, error }: ShownCall, maxBytes: number): string {
  if (status === 'DONE') return inBytes(typeof output === 'string' ? output : JSON.stringify(output ?? null), maxBytes)
  return JSON.stringify({ error: { code: status, message: error ?? 'The call has no result.' } })
}

/** Replaces a text that does not fit into an event with an error in the format of a failed call. */
const inBytes = (text: string, maxBytes: number): string =>
  jsonBytes(text) <= maxBytes ? text : JSON.stringify({ error: { code: 'TOO_LARGE', message: TOO_LARGE } })

const TOO_LARGE = 'The text is too long for an event: read it with GraphQL.'

/** Returns the text that represents a file. */
export const fileText = ({ id, name, mediaType }: { id: string; name: string; mediaType: string }): string =>
  `[file ${name} (${mediaType}, ${id})]`

/** Returns the text of a human's message, with its files. */
export function textOf(parts: readonly ShownPart[]): string {
  const texts = parts.flatMap((part) =>
    part.__typename === 'TextPart' ? [part.text] : part.__typename === 'FilePart' ? [fileText(part.file)] : [],
  )
  return texts.join('\n\n')
}

/**
 * Converts a message of a space to AG-UI messages. A human's message becomes one message. An agent's message
 * becomes one message for each part and for each result.
 * @param maxValueBytes the maximum size of a call's input or result
 */
export function messagesOf(message: ShownMessage, maxValueBytes: number): Message[] {
  const { id, sender, parts } = message
  const metadata = metadataOf(id, sender)
  if (sender.kind === 'HUMAN') {
    const user: UserMessage = {
      id: clientIdOf(message) ?? id,
      role: 'user',
      name: sender.name,
      content: textOf(parts),
      metadata,
    }
    return [user]
  }
  return parts.flatMap((part): Message[] => {
    const own: AssistantMessage = { id: partId(id, part.index), role: 'assistant', name: sender.name, metadata }
    if (part.__typename === 'TextPart') return [{ ...own, content: part.text }]
    if (part.__typename === 'FilePart') return [{ ...own, content: fileText(part.file) }]
    const { toolCall } = part
    if (toolCall.status === 'STREAMING') return []
    const fn = { name: toolCall.toolName, arguments: inputOf(toolCall, maxValueBytes) }
    const calling: AssistantMessage = { ...own, toolCalls: [{ id: toolCall.id, type: 'function', function: fn }] }
    const result: ToolMessage = {
      id: resultId(toolCall.id),
      role: 'tool',
      toolCallId: toolCall.id,
      content: resultOf(toolCall, maxValueBytes),
      metadata,
    }
    return isSettledCall(toolCall.status) ? [calling, result] : [calling]
  })
}
