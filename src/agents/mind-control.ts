import type { Viewer } from '../access/viewer.ts'
import type { InboxEvent } from '../generated/prisma/client.ts'
import { ConflictError, ForbiddenError, NotFoundError } from '../lib/errors.ts'
import { prefixOf } from '../lib/ids.ts'
import type { Platform } from '../platform/platform.ts'
import { agentChannel } from '../realtime/topics.ts'

/** Lets admins change the inbox and consciousness of a persistent agent. */
export interface MindControl {
  /**
   * Removes an event from an inbox before a cycle claims it; the same event cannot arrive again.
   * @throws ForbiddenError, NotFoundError, ConflictError if a cycle has claimed it
   */
  removeInboxEvent(viewer: Viewer, input: { id: string }): Promise<InboxEvent>
  /**
   * Starts a new consciousness. Earlier cycles stay on record, but the agent is no longer shown them. A cycle that is
   * running becomes the first of the new consciousness.
   * @throws ForbiddenError, NotFoundError for an unknown or stateless agent
   */
  resetConsciousness(viewer: Viewer, input: { agentId: string }): Promise<{ agentId: string }>
}

const ADMINS_ONLY = 'Only an admin can read or change the consciousness and inbox of an agent.'

export function createMindControl({ db, signals }: Pick<Platform, 'db' | 'signals'>): MindControl {
  return {
    async removeInboxEvent(viewer, { id }) {
      if (viewer.scope !== 'ADMIN') throw new ForbiddenError(ADMINS_ONLY)
      if (prefixOf(id) !== 'inb') throw new NotFoundError(NO_SUCH_EVENT)
      const where = { id, doneAt: null, OR: [{ runId: null }, { retryAt: { not: null } }] }
      const data = { doneAt: new Date(), retryAt: null }
      const removed = await db.transaction(async (tx) => {
        const [event] = await tx.inboxEvent.updateManyAndReturn({ where, data })
        if (event !== undefined) return event
        const wasTaken = (await tx.inboxEvent.count({ where: { id, runId: { not: null } } })) > 0
        throw wasTaken
          ? new ConflictError('A think cycle has already claimed this event.')
          : new NotFoundError(NO_SUCH_EVENT)
      })
      await signals.publish(agentChannel(removed.agentId), { type: 'run-changed' })
      return removed
    },
    async resetConsciousness(viewer, { agentId }) {
      if (viewer.scope !== 'ADMIN') throw new ForbiddenError(ADMINS_ONLY)
      if (prefixOf(agentId) !== 'agt') throw new NotFoundError(NO_SUCH_MIND)
      await db.transaction(async (tx) => {
        const count = await tx.$executeRaw`
          UPDATE "Agent" SET "firstCycle" = "cycleCount" WHERE id = ${agentId} AND mind = 'PERSISTENT'`
        if (count === 0) throw new NotFoundError(NO_SUCH_MIND)
      })
      return { agentId }
    },
  }
}

const NO_SUCH_EVENT = 'There is no such inbox event.'
const NO_SUCH_MIND = 'There is no such persistent agent.'
