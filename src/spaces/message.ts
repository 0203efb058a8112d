import type { MessageStatus, Message as Row, TriggerType } from '../generated/prisma/client.ts'

/**
 * A part of a message, by index. A tool part's content is the tool call. `unfinished`: of a composite message, the last part that was
 * being written when it was saved, or cut off.
 */
export type MessagePart =
  | { type: 'text'; text: string; unfinished?: true }
  | { type: 'tool'; toolCallId: string; unfinished?: true }

/** Why a message was posted, when its run was triggered elsewhere than in its space. */
export interface MessageOrigin {
  triggerType: TriggerType
  triggerName: string | null
  triggerSpaceId: string | null
  triggerSpaceName: string | null
  triggerSenderName: string | null
  triggerMessage: string | null
}

/** A message as the domain knows it; `parts` of a STREAMING one are in the event log's draft, not here. */
export interface Message extends Omit<Row, 'parts' | 'origin'> {
  parts: MessagePart[]
  origin: MessageOrigin | null
}

export function messageOfRow(row: Row): Message {
  return { ...row, parts: row.parts as unknown as MessagePart[], origin: row.origin as unknown as MessageOrigin | null }
}

/** The text parts, joined by a blank line. */
export function textOf(parts: MessagePart[]): string {
  return parts.flatMap((part) => (part.type === 'text' ? [part.text] : [])).join('\n\n')
}

/** Where among the parts a call shows; negative where it does not. */
export function indexOfCall(parts: readonly MessagePart[], callId: string): number {
  return parts.findIndex((part) => part.type === 'tool' && part.toolCallId === callId)
}

/** A part of a composite message that was cut off, or is being written. */
export function isUnfinished(part: MessagePart): boolean {
  return part.unfinished === true
}

/** Nothing of the message changes any more. */
export function isWhole(status: MessageStatus): boolean {
  return status === 'COMPLETE' || status === 'INTERRUPTED'
}
