import type { Message } from './message.ts'

// A thread belongs to a message of a space, its root. Replies to a reply join the thread of that reply.

/** The message that another one replies to, and the thread that it joins; both null outside of threads. */
export type ReplyPlace = Pick<Message, 'replyToId' | 'threadRootId'>

/** The place of a message that is not a reply. */
export const NO_REPLY: ReplyPlace = { replyToId: null, threadRootId: null }

/** A message that is replied to. */
export interface RepliedMessage extends Pick<Message, 'id' | 'threadRootId' | 'deletedAt'> {
  /** The message has a thread. */
  isRoot: boolean
}

/** Returns the place of a reply to a message; null if the message was deleted. The thread of a deleted message continues. */
export function placeOfReply({ id, threadRootId, deletedAt, isRoot }: RepliedMessage): ReplyPlace | null {
  if (deletedAt !== null && !isRoot) return null
  return { replyToId: id, threadRootId: threadRootId ?? id }
}

/** A run as its default place needs it. */
interface PlacedRun {
  triggerType: string
  triggerSpaceId: string | null
  triggerMessageId: string | null
  threadRootId: string | null
  /** WokenBy of rules/chain.ts; null: the trigger alone woke it. */
  wokenBy: unknown
  /** The events of a think cycle; empty for other runs. */
  sources: readonly { type: string; spaceId: string | null; payload: unknown }[]
}

/**
 * Returns where the messages of a run go in a space, unless a call names another thread: into the thread of its trigger.
 * Messages of a think cycle go into the thread of its events of that space, if all of these come from one thread.
 */
export function defaultPlace(run: PlacedRun, spaceId: string): ReplyPlace {
  if (run.triggerType !== 'INBOX') {
    const { threadRootId, triggerMessageId, wokenBy } = run
    if (run.triggerSpaceId !== spaceId || threadRootId === null) return NO_REPLY
    // The message that answers an agent which is called back may be outside of the thread where the agent works.
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

/** Whether a message is where the reply to a question is expected: in the same thread, or in the thread that the question starts. */
export function isWhereAsked({ messageId, threadRootId }: AskingMessage, replyThreadId: string | null): boolean {
  return replyThreadId === threadRootId || replyThreadId === messageId
}
