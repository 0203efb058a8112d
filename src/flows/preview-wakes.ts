import type { Viewer } from '../access/viewer.ts'
import type { Visibility } from '../access/visibility.ts'
import { BadInputError, NotFoundError } from '../lib/errors.ts'
import type { Platform } from '../platform/platform.ts'
import { decideWakes } from '../rules/routing.ts'
import { NO_SUCH_SPACE } from '../stores/space-store.ts'
import { findReplied } from '../stores/thread-store.ts'
import { NO_SUCH_MESSAGE } from './message-access.ts'
import { readAnswerable } from './reply-waits.ts'
import { readRoom } from './rooms.ts'

/** Predicts which agents a message would wake, so that the message input field can show them. */
export interface WakePreview {
  /**
   * Returns the ids of the agents that a message of the viewer would wake now, in the order in which they joined.
   * Ignores unknown ids in `mentionedIds`.
   * @throws NotFoundError; BadInputError for a reply to a deleted message
   */
  preview(viewer: Viewer, message: PreviewedMessage): Promise<string[]>
}

interface PreviewedMessage {
  spaceId: string
  mentionedIds: readonly string[]
  /** The id of the message to which the new message replies. */
  replyToId: string | null
}

export function createWakePreview(
  { db }: Pick<Platform, 'db'>,
  { visibility }: { visibility: Pick<Visibility, 'spaces'> },
): WakePreview {
  return {
    async preview(viewer, { spaceId, mentionedIds, replyToId }) {
      if (!(await visibility.spaces(viewer, [spaceId])).has(spaceId)) throw new NotFoundError(NO_SUCH_SPACE)
      const senderId = viewer.id
      const threadRootId = replyToId === null ? null : await threadOf(db, spaceId, replyToId)
      const [room, answered] = await Promise.all([
        readRoom(db.prisma, { spaceId, rootId: '', senderId, threadRootId }),
        readAnswerable(db.prisma, { spaceId, senderId, threadRootId }),
      ])
      if (room === null) throw new NotFoundError(NO_SUCH_SPACE)
      // If a mentioned agent waits for a reply, the message answers the wait and also wakes the agent.
      for (const id of mentionedIds) answered.delete(id)
      const { wakes } = decideWakes({ senderId, senderKind: 'HUMAN', mentions: mentionedIds }, room, answered)
      return wakes.map(({ id }) => id)
    },
  }
}

/**
 * Returns the thread to which a reply would belong.
 * @throws NotFoundError, BadInputError
 */
async function threadOf(db: Platform['db'], spaceId: string, replyToId: string): Promise<string | null> {
  const found = await findReplied(db, { spaceId, replyToId })
  if (found.type === 'unknown') throw new NotFoundError(NO_SUCH_MESSAGE)
  if (found.type === 'deleted')
    throw new BadInputError('The message was deleted: reply to another message.', 'replyToId')
  return found.place.threadRootId
}
