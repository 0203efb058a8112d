import type { Viewer } from '../access/viewer.ts'
import type { Visibility } from '../access/visibility.ts'
import { ForbiddenError, NotFoundError } from '../lib/errors.ts'
import { prefixOf } from '../lib/ids.ts'
import { NO_SUCH_SPACE } from './members.ts'
import type { Message } from './message.ts'
import type { Posting } from './posting.ts'

export interface SendMessageInput {
  spaceId: string
  text: string
  mentionedAgentId?: string | null
  idempotencyKey?: string | null
}

/** Sends messages for a viewer. */
export interface Sending<R> {
  /**
   * Posts as the viewer in one of the viewer's spaces. A repeat of an idempotency key returns the
   * first message and its runs.
   * @throws ForbiddenError for an admin token; NotFoundError for a space or mentioned agent that
   * the viewer cannot see; BadInputError for an invalid text, or a mention of an entity that is not
   * an agent member; ConflictError for a key that was used with other content
   */
  send(viewer: Viewer, input: SendMessageInput): Promise<{ message: Message; runs: R[] }>
}

export function createSending<R>(
  posting: Pick<Posting<R>, 'send'>,
  visibility: Pick<Visibility, 'entities'>,
): Sending<R> {
  return {
    async send(viewer, { spaceId, text, mentionedAgentId = null, idempotencyKey = null }) {
      if (viewer.scope === 'ADMIN')
        throw new ForbiddenError('An admin token cannot post messages: use the token of a human.')
      if (prefixOf(spaceId) === null) throw new NotFoundError(NO_SUCH_SPACE)
      if (mentionedAgentId !== null) {
        const visible = await visibility.entities(viewer, [mentionedAgentId])
        if (!visible.has(mentionedAgentId)) throw new NotFoundError('There is no such agent, or none that you may see.')
      }
      return posting.send({ spaceId, senderId: viewer.id, text, mentionedAgentId, idempotencyKey })
    },
  }
}
