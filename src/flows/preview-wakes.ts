import type { Viewer } from '../access/viewer.ts'
import type { Visibility } from '../access/visibility.ts'
import { NotFoundError } from '../lib/errors.ts'
import type { Platform } from '../platform/platform.ts'
import { decideWakes } from '../rules/routing.ts'
import { NO_SUCH_SPACE } from '../stores/space-store.ts'
import { readAnswerable } from './reply-waits.ts'
import { readRoom } from './rooms.ts'

/** Determines whom a message would wake, for the composer (the input field for messages). */
export interface WakePreview {
  /**
   * Returns the ids of the agents that a message of the viewer would wake now, in join order. Unknown ids among
   * `mentionedIds` do not count.
   * @throws NotFoundError
   */
  preview(viewer: Viewer, message: { spaceId: string; mentionedIds: readonly string[] }): Promise<string[]>
}

export function createWakePreview(
  { db }: Pick<Platform, 'db'>,
  { visibility }: { visibility: Pick<Visibility, 'spaces'> },
): WakePreview {
  return {
    async preview(viewer, { spaceId, mentionedIds }) {
      if (!(await visibility.spaces(viewer, [spaceId])).has(spaceId)) throw new NotFoundError(NO_SUCH_SPACE)
      const senderId = viewer.id
      const [room, answered] = await Promise.all([
        readRoom(db.prisma, { spaceId, rootId: '', senderId }),
        readAnswerable(db.prisma, { spaceId, senderId }),
      ])
      if (room === null) throw new NotFoundError(NO_SUCH_SPACE)
      // A mentioned agent that waits for a reply gets the message as the answer, and is woken as well.
      for (const id of mentionedIds) answered.delete(id)
      const { wakes } = decideWakes({ senderId, senderKind: 'HUMAN', mentions: mentionedIds }, room, answered)
      return wakes.map(({ id }) => id)
    },
  }
}
