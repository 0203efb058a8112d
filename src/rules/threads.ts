import type { Message } from './message.ts'

// A thread starts with one message, its root. A reply to a reply joins the same thread.

/**
 * The message to which another message replies, and the thread of the reply; both null for a message outside of
 * threads.
 */
export type ReplyPlace = Pick<Message, 'replyToId' | 'threadRootId'>

/** The value for a message that is not a reply. */
export const NO_REPLY: ReplyPlace = { replyToId: null, threadRootId: null }

/** A message that gets a reply. */
export interface RepliedMessage extends Pick<Message, 'id' | 'threadRootId' | 'deletedAt'> {
  /** Whether the message is the root of a thread. */
  isRoot: boolean
}

/**
 * Returns the thread for a reply to a message. Returns null if the message was deleted, unless it already has a thread.
 */
export function placeOfReply({ id, threadRootId, deletedAt, isRoot }: RepliedMessage): ReplyPlace | null {
  if (deletedAt !== null && !isRoot) return null
  return { replyToId: id, threadRootId: threadRootId ?? id }
}

/** The fields of a run that determine the default thread of its messages. */
interface PlacedRun {
  triggerType: string
  triggerSpaceId: string | null
  triggerMessageId: string | null
  threadRootId: string | null
  /** The WokenBy of rules/chain.ts; null if only the trigger woke the run. */
  wokenBy: unknown
  /** The events of a think cycle; empty for other runs. */
  sources: readonly { type: string; spaceId: string | null; payload: unknown }[]
}

/**
 * Returns the default thread for a run's messages in a space: the thread of the run's trigger. For a think cycle,
 * returns the thread of its events in that space if they are all in the same thread.
 */
export function defaultPlace(run: PlacedRun, spaceId: string): ReplyPlace {
  if (run.triggerType !== 'INBOX') {
    const { threadRootId, triggerMessageId, wokenBy } = run
    if (run.triggerSpaceId !== spaceId || threadRootId === null) return NO_REPLY
    // When an agent is called back, the message that answers it can be outside of the agent's thread.
    const isCalledBack = (wokenBy as { type?: unknown } | null)?.type === 'callback'
    return { replyToId: isCalledBack ? threadRootId : (triggerMessageId ?? threadRootId), threadRootId }
  }
  const events = run.sources.filter((source) => source.type === 'SPACE_MESSAGE' && source.spaceId === spaceId)
  const [place = NO_REPLY, ...others] = events.map(({ payload }) => placeOfEvent(payload))
  if (others.some(({ threadRootId }) => threadRootId !== place.threadRootId)) return NO_REPLY
  return others.length === 0 ? place : { replyToId: place.threadRootId, threadRootId: place.threadRootId }
}

function placeOfEvent(payload: unknown): ReplyPlace {
  const { threadRootId, messageId } = (payload ?? {}) as Record<string, unknown>
  if (typeof threadRootId !== 'string') return NO_REPLY
  return { replyToId: typeof messageId === 'string' ? messageId : threadRootId, threadRootId }
}

/** A message that asks a question and waits for a reply. */
export interface AskingMessage {
  messageId: string
  threadRootId: string | null
}

/**
 * Whether a message is where the reply to a question is expected: in the question's thread, or in the thread that the
 * question starts.
 */
export function isWhereAsked({ messageId, threadRootId }: AskingMessage, replyThreadId: string | null): boolean {
  return replyThreadId === threadRootId || replyThreadId === messageId
}
