import type { Viewer } from '../access/viewer.ts'
import type { Visibility } from '../access/visibility.ts'
import type { Space } from '../generated/prisma/client.ts'
import { PUBLISH_CHANGE } from '../jobs/queues.ts'
import { messageOf, NotFoundError } from '../lib/errors.ts'
import { prefixOf } from '../lib/ids.ts'
import { asOwnWork } from '../lib/requester-context.ts'
import type { Tx } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'
import { WHY_DROPPED } from '../rules/run-end.ts'
import type { SpacePublisher } from '../spaces/space-publisher.ts'
import { dropStranded, type FormerMember, readStrandedAgents } from '../stores/inbox-store.ts'
import { deleteJoinLinks } from '../stores/join-link-store.ts'
import { deleteMember, deleteMembershipsOf, type Member } from '../stores/membership-store.ts'
import { lockSpace, NO_SUCH_SPACE } from '../stores/space-store.ts'
import type { DecideCall } from './decide-call.ts'
import { endEvents } from './end-events.ts'
import type { Lifecycle } from './lifecycle.ts'

/** Ends memberships. */
export interface Leaving {
  /**
   * Removes a member. Only members and admins may do this. `space` is null if the viewer has left the space by this
   * call. An admin agent that leaves stays configured as the space's admin agent, and resumes this role if it
   * returns. Until then the space has no admin agent. Drops the agent's waiting inbox events of the space (DROPPED),
   * and thereby ends its turns in chains. Cancels queued runs that the space triggered (CANCELED, GONE), and the
   * agent's pending approvals in the space. If this process dies first, a sweep does this; think cycles no longer
   * claim the events in the meantime. When a human leaves, approvals that too few people can still decide are
   * escalated or become EXPIRED. The human's own join links become invalid. If somebody else removes a human, all
   * join links of the space become invalid.
   *
   * @throws NotFoundError
   */
  remove(viewer: Viewer, input: Member): Promise<{ spaceId: string; entityId: string; space: Space | null }>
  /**
   * Ends all memberships of an entity, in the transaction that deletes the entity. If the entity is an agent, the
   * caller must end its runs.
   */
  leaveAll(tx: Tx, entityId: string): Promise<{ afterCommit(): Promise<void> }>
  /**
   * Drops the events of agents that have left or were deleted. Such events can remain after an interruption, or
   * arrive later.
   */
  sweep(): Promise<void>
}

interface LeavingParts {
  visibility: Pick<Visibility, 'spaces'>
  publisher: Pick<SpacePublisher, 'left'>
  lifecycle: Pick<Lifecycle, 'leave'>
  decideCall: Pick<DecideCall, 'recheck'>
}

/** The number of events that one transaction drops. */
const EVENTS_AT_ONCE = 200
/** The maximum number of transactions in one call. If more events remain, sweeps drop them. */
const MOST_BATCHES = 5
const NO_SUCH_MEMBER = 'There is no such member in this space.'

export function createLeaving(platform: Platform, parts: LeavingParts): Leaving {
  const { db, jobs, logger } = platform
  const { visibility, publisher, lifecycle, decideCall } = parts

  /**
   * Drops the waiting events of a former member, in transactions of 200 events. If there are more than 1000 events,
   * sweeps drop the rest.
   */
  async function dropEvents(member: FormerMember): Promise<void> {
    for (let batch = 0; batch < MOST_BATCHES; batch++) {
      const { count, ended } = await db.transaction(async (tx) => {
        const events = await dropStranded(tx, member, EVENTS_AT_ONCE)
        return { count: events.length, ended: await endEvents(tx, platform, { events, reason: WHY_DROPPED }) }
      })
      await ended.afterCommit()
      if (count < EVENTS_AT_ONCE) return
    }
  }

  return {
    async remove(viewer, { spaceId, entityId }) {
      const visible = await visibility.spaces(viewer, [spaceId])
      if (!visible.has(spaceId)) throw new NotFoundError(NO_SUCH_SPACE)
      if (prefixOf(entityId) === null) throw new NotFoundError(NO_SUCH_MEMBER)
      const { space, change } = await db.transaction(async (tx) => {
        const space = await lockSpace(tx, spaceId)
        const ended = await deleteMember(tx, { spaceId, entityId })
        if (ended === null) throw new NotFoundError(NO_SUCH_MEMBER)
        // A human who was removed may have seen any of the links, and must not rejoin with one.
        const isRemoved = viewer.id !== entityId && prefixOf(entityId) === 'hum'
        await deleteJoinLinks(tx, isRemoved ? { spaceId } : { spaceId, createdById: entityId })
        return { space, change: ended.change }
      })
      // The rest of the removal ends work of other people and agents, so it must not queue behind other statements of
      // the viewer.
      await asOwnWork(async () => {
        await publisher.left(spaceId, entityId, change)
        jobs.withdraw(PUBLISH_CHANGE, change)
        await dropEvents({ agentId: entityId, spaceId })
        await lifecycle.leave({ agentId: entityId, spaceId })
        await decideCall.recheck({ spaceId })
      })
      return { spaceId, entityId, space: viewer.id === entityId ? null : space }
    },
    async leaveAll(tx, entityId) {
      const { spaceIds, change } = await deleteMembershipsOf(tx, entityId)
      await deleteJoinLinks(tx, { createdById: entityId })
      return {
        async afterCommit() {
          for (const spaceId of spaceIds) await publisher.left(spaceId, entityId, change)
          jobs.withdraw(PUBLISH_CHANGE, change)
          await dropEvents({ agentId: entityId })
          for (const spaceId of spaceIds) await decideCall.recheck({ spaceId })
        },
      }
    },
    async sweep() {
      for (const agentId of await readStrandedAgents(db.prisma)) {
        await dropEvents({ agentId }).catch((error) =>
          logger.warn({ agentId, error: messageOf(error) }, 'could not drop the events of a former member'),
        )
      }
    },
  }
}
