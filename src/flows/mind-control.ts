import type { Viewer } from '../access/viewer.ts'
import { agentChannel } from '../broker/topics.ts'
import type { InboxEvent } from '../generated/prisma/client.ts'
import { ConflictError, NotFoundError } from '../lib/errors.ts'
import { prefixOf } from '../lib/ids.ts'
import type { Platform } from '../platform/platform.ts'
import { requireAdmin } from '../rules/permissions.ts'
import { hideCycles } from '../stores/agent-store.ts'
import { dropEvent } from '../stores/inbox-store.ts'
import { endEvents } from './end-events.ts'

/** Lets admins change the inbox and consciousness of a persistent agent. */
export interface MindControl {
  /**
   * Removes an event from an inbox before a think cycle claims the event. The same event cannot arrive again. The
   * event's message gets the outcome DROPPED for the agent, and the agent's turn in a chain ends.
   * @throws ForbiddenError, NotFoundError; ConflictError if a cycle has already claimed the event
   */
  removeInboxEvent(viewer: Viewer, input: { id: string }): Promise<InboxEvent>
  /**
   * Starts a new consciousness. Earlier cycles remain stored, but the agent no longer sees them. A cycle that is
   * running becomes the first one of the new consciousness.
   * @throws ForbiddenError; NotFoundError for an unknown or stateless agent
   */
  resetConsciousness(viewer: Viewer, input: { agentId: string }): Promise<{ agentId: string }>
}

const ACTION = 'read or change the consciousness and inbox of an agent'

export function createMindControl(platform: Pick<Platform, 'db' | 'jobs' | 'signals' | 'log' | 'config'>): MindControl {
  const { db, signals } = platform
  return {
    async removeInboxEvent(viewer, { id }) {
      requireAdmin(viewer, ACTION)
      if (prefixOf(id) !== 'inb') throw new NotFoundError(NO_SUCH_EVENT)
      const { removed, ended } = await db.transaction(async (tx) => {
        const event = await dropEvent(tx, id)
        if (event !== null)
          return { removed: event, ended: await endEvents(tx, platform, { events: [event], reason: REMOVED }) }
        const wasTaken = (await tx.inboxEvent.count({ where: { id, runId: { not: null } } })) > 0
        throw wasTaken
          ? new ConflictError('A think cycle has already claimed this event.')
          : new NotFoundError(NO_SUCH_EVENT)
      })
      await signals.publish(agentChannel(removed.agentId), { type: 'run-changed' })
      await ended.afterCommit()
      return removed
    },
    async resetConsciousness(viewer, { agentId }) {
      requireAdmin(viewer, ACTION)
      if (prefixOf(agentId) !== 'agt') throw new NotFoundError(NO_SUCH_MIND)
      await db.transaction(async (tx) => {
        if (!(await hideCycles(tx, agentId))) throw new NotFoundError(NO_SUCH_MIND)
      })
      return { agentId }
    },
  }
}

const REMOVED = 'An admin removed the message from the inbox of the agent.'
const NO_SUCH_EVENT = 'There is no such inbox event.'
const NO_SUCH_MIND = 'There is no such persistent agent.'
