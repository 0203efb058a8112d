import type { Viewer } from '../access/viewer.ts'
import type { InboxEvent } from '../generated/prisma/client.ts'
import { ConflictError, ForbiddenError, NotFoundError } from '../lib/errors.ts'
import { prefixOf } from '../lib/ids.ts'
import type { Platform } from '../platform/platform.ts'
import { agentChannel } from '../realtime/topics.ts'

/** What admins may do to a persistent mind. */
export interface MindControl {
  /**
   * Takes an event out of an inbox before a cycle does: it is not thought about, and cannot arrive again.
   * @throws ForbiddenError, NotFoundError, ConflictError once a cycle has it
   */
  removeInboxEvent(viewer: Viewer, input: { id: string }): Promise<InboxEvent>
  /**
   * Lets a mind begin anew: what it thought until now is kept on record and shown to it no more. A cycle that is under way
   * is the first of the new consciousness.
   * @throws ForbiddenError, NotFoundError where there is no such agent, or it has no consciousness
   */
  resetConsciousness(viewer: Viewer, input: { agentId: string }): Promise<{ agentId: string }>
}

const ADMINS_ONLY = 'Only an admin can see or change what an agent thinks.'

export function createMindControl({ db, signals }: Pick<Platform, 'db' | 'signals'>): MindControl {
  return {
    async removeInboxEvent(viewer, { id }) {
      if (viewer.scope !== 'ADMIN') throw new ForbiddenError(ADMINS_ONLY)
      if (prefixOf(id) !== 'inb') throw new NotFoundError(NO_SUCH_EVENT)
      const where = { id, runId: null, doneAt: null }
      const [removed] = await db.prisma.inboxEvent.updateManyAndReturn({ where, data: { doneAt: new Date() } })
      if (removed === undefined) {
        const exists = (await db.prisma.inboxEvent.count({ where: { id } })) > 0
        throw exists
          ? new ConflictError('A think cycle has taken this event already.')
          : new NotFoundError(NO_SUCH_EVENT)
      }
      await signals.publish(agentChannel(removed.agentId), { type: 'run-changed' })
      return removed
    },
    async resetConsciousness(viewer, { agentId }) {
      if (viewer.scope !== 'ADMIN') throw new ForbiddenError(ADMINS_ONLY)
      const count =
        prefixOf(agentId) === 'agt'
          ? await db.prisma.$executeRaw`
              UPDATE "Agent" SET "firstCycle" = "cycleCount" WHERE id = ${agentId} AND mind = 'PERSISTENT'`
          : 0
      if (count === 0) throw new NotFoundError('There is no such agent with a persistent mind.')
      return { agentId }
    },
  }
}

const NO_SUCH_EVENT = 'There is no such inbox event.'
