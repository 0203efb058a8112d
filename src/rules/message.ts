import type { Provenance } from '../confidentiality/marks.ts'
import type { Message as Row, TriggerType } from '../generated/prisma/client.ts'

/**
 * A part of a message. A tool part refers to its tool call. `unfinished` is set for the last part of a composite
 * message while that part is streaming, or if it was interrupted.
 */
export type MessagePart =
  | { type: 'text'; text: string; unfinished?: true }
  | { type: 'tool'; toolCallId: string; unfinished?: true }
  | { type: 'file'; fileId: string; name: string; mediaType: string; unfinished?: true }

/** A file that is attached to a message. */
export type FilePart = Extract<MessagePart, { type: 'file' }>

/** Why a message was posted, for a run that was not triggered from the message's space. */
export interface MessageOrigin {
  triggerType: TriggerType
  triggerName: string | null
  triggerSpaceId: string | null
  triggerSpaceName: string | null
  triggerSenderName: string | null
  triggerMessage: string | null
}

/** A message. The streamed text of a STREAMING message is in the draft of the event log, not in `parts`. */
export interface Message extends Omit<Row, 'parts' | 'origin' | keyof Provenance>, Provenance {
  parts: MessagePart[]
  origin: MessageOrigin | null
}

export function messageOfRow(row: Row): Message {
  return { ...row, parts: row.parts as unknown as MessagePart[], origin: row.origin as unknown as MessageOrigin | null }
}

/** Returns the ids of the entities that a message mentions. A message of an agent mentions at most one agent. */
export function mentionsOf({
  mentionedIds,
  mentionedAgentId,
}: Pick<Row, 'mentionedIds' | 'mentionedAgentId'>): readonly string[] {
  if (mentionedIds.length > 0 || mentionedAgentId === null) return mentionedIds
  return [mentionedAgentId]
}

/** Returns the text parts, joined by a blank line. */
export function textOf(parts: MessagePart[]): string {
  return parts.flatMap((part) => (part.type === 'text' ? [part.text] : [])).join('\n\n')
}

/** Returns the index of the part that shows a call; a negative number if there is none. */
export function indexOfCall(parts: readonly MessagePart[], callId: string): number {
  return parts.findIndex((part) => part.type === 'tool' && part.toolCallId === callId)
}

/** Whether a part of a composite message is still streaming, or was interrupted before its end. */
export function isUnfinished(part: MessagePart): boolean {
  return part.unfinished === true
}
