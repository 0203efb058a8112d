import type { MessageStatus } from '../generated/prisma/enums.ts'
import { isUnfinished, type MessagePart } from './message.ts'

/** A message of a run whose worker has died, with the streamed text of its current part. */
export interface BegunMessage {
  status: MessageStatus
  composite: boolean
  /** Whether the message is the run's closing text. Every later attempt posts that text again. */
  fromPlainText: boolean
  /** The call to which the message belongs, for a message of one call. */
  runPostKey: string | null
  parts: readonly MessagePart[]
}

/**
 * Whether no call will continue the message. For a message of one call, this is the case if the call is not in the
 * journal, or was settled without the message. A composite message waits for more parts unless a part is lost. A part
 * is lost if its generation is not in the journal, or if it is unfinished and its call is settled. A generation starts
 * only when all earlier calls are settled.
 *
 * @param openCalls the journaled calls of the run that are not settled
 */
export function isOrphan(
  { status, composite, fromPlainText, runPostKey, parts }: BegunMessage,
  openCalls: ReadonlySet<string>,
): boolean {
  if (status !== 'STREAMING' || fromPlainText || openCalls.has(runPostKey ?? '')) return false
  const isLost = (part: MessagePart) =>
    isUnfinished(part) && (part.type === 'tool' ? !openCalls.has(part.toolCallId) : openCalls.size === 0)
  return !composite || parts.some(isLost)
}
