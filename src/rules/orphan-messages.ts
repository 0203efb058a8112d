import type { MessageStatus } from '../generated/prisma/enums.ts'
import { isUnfinished, type MessagePart } from './message.ts'

/** A message of a run whose worker has died, with the streamed text of its current part. */
export interface BegunMessage {
  status: MessageStatus
  composite: boolean
  /** Whether the message is the closing text of the run, which every later attempt posts again. */
  fromPlainText: boolean
  /** The call to which the message belongs, for a message of one call. */
  runPostKey: string | null
  parts: readonly MessagePart[]
}

/**
 * Whether no call will continue the message, because its call is not in the journal, or was settled without it. A
 * composite message stays unfinished for more parts, unless one of its parts is lost: a part streamed by a
 * generation that is not in the journal (a generation starts only when all earlier calls are settled), or an
 * unfinished part of a settled call.
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
