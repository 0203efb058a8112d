import type { Viewer } from '../access/viewer.ts'
import type { Visibility } from '../access/visibility.ts'
import type { Space } from '../generated/prisma/client.ts'
import { NotFoundError } from '../lib/errors.ts'
import { prefixOf } from '../lib/ids.ts'
import type { Tx } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'
import type { SpacePublisher } from '../spaces/space-publisher.ts'
import { dropEventsOfSpace } from '../stores/inbox-store.ts'
import { deleteJoinLinks } from '../stores/join-link-store.ts'
import { deleteMember, deleteMembershipsOf, type Member } from '../stores/membership-store.ts'
import { lockSpace, NO_SUCH_SPACE } from '../stores/space-store.ts'
import { loseTurns } from './chain.ts'
import type { DecideCall } from './decide-call.ts'
import type { Lifecycle } from './lifecycle.ts'
import { collectOutcomeChanges, noteDropped } from './outcome-changes.ts'

/** Ends memberships. */
export interface Leaving {
  /**
   * Removes a member; for members and admins. `space` is null for a viewer who has left by this call. An
   * admin agent that leaves keeps the role in the settings and resumes it on return; until then
   * the space has no admin agent.
   *
   * In the same transaction the waiting inbox events of the space are dropped (DROPPED), and the
   * agent's turns in chains end. After that, queued runs that the space triggered are
   * canceled (CANCELED, GONE), and so are pending approvals in the space. When a human leaves, approvals that too
   * few people can still decide are escalated, or become EXPIRED. The join links that the member created end; if somebody else
   * removes a human, all join links of the space end.
   * @throws NotFoundError
   */
  remove(viewer: Viewer, input: Member): Promise<{ spaceId: string; entityId: string; space: Space | null }>
  /** Ends all memberships of an entity, in the transaction that deletes it. */
  leaveAll(tx: Tx, entityId: string): Promise<{ afterCommit(): Promise<void> }>
  /** Cleans up after events that arrived while the agent was leaving: no cycle reads them, and they are DROPPED. */
  sweep(): Promise<void>
}

interface LeavingParts {
  visibility: Pick<Visibility, 'spaces'>
  publisher: Pick<SpacePublisher, 'left'>
  lifecycle: Pick<Lifecycle, 'leave'>
  decideCall: Pick<DecideCall, 'recheck'>
}

const NO_SUCH_MEMBER = 'There is no such member in this space.'

export function createLeaving(platform: Platform, parts: LeavingParts): Leaving {
  const { db, log } = platform
  const { visibility, publisher, lifecycle, decideCall } = parts

  /** Ends everything that the space had started, in the transaction that ends the membership. */
  async function endWork(tx: Tx, { spaceId, entityId: agentId }: Member) {
    const outcomes = collectOutcomeChanges(tx, log)
    const dropped = await dropEventsOfSpace(tx, agentId, spaceId)
    for (const { messageId } of dropped) {
      if (messageId !== null) await noteDropped(outcomes, { agentId, messageId, runId: null })
    }
    const lost = await loseTurns(tx, platform, dropped)
    return {
      async afterCommit() {
        await outcomes.announce()
        await lost.afterCommit()
        await lifecycle.leave({ agentId, spaceId })
        await decideCall.recheck({ spaceId })
      },
    }
  }

  return {
    async remove(viewer, { spaceId, entityId }) {
      const visible = await visibility.spaces(viewer, [spaceId])
      if (!visible.has(spaceId)) throw new NotFoundError(NO_SUCH_SPACE)
      if (prefixOf(entityId) === null) throw new NotFoundError(NO_SUCH_MEMBER)
      const { space, ended } = await db.transaction(async (tx) => {
        const space = await lockSpace(tx, spaceId)
        if (!(await deleteMember(tx, { spaceId, entityId }))) throw new NotFoundError(NO_SUCH_MEMBER)
        // A removed human may know any of the links, and must not use one to come back.
        const isRemoved = viewer.id !== entityId && prefixOf(entityId) === 'hum'
        await deleteJoinLinks(tx, isRemoved ? { spaceId } : { spaceId, createdById: entityId })
        return { space, ended: await endWork(tx, { spaceId, entityId }) }
      })
      await publisher.left(spaceId, entityId)
      await ended.afterCommit()
      return { spaceId, entityId, space: viewer.id === entityId ? null : space }
    },
    async leaveAll(tx, entityId) {
      const spaceIds = await deleteMembershipsOf(tx, entityId)
      await deleteJoinLinks(tx, { createdById: entityId })
      const ended: (() => Promise<void>)[] = []
      for (const spaceId of spaceIds) ended.push((await endWork(tx, { spaceId, entityId })).afterCommit)
      return {
        async afterCommit() {
          for (const spaceId of spaceIds) await publisher.left(spaceId, entityId)
          for (const after of ended) await after()
        },
      }
    },
    async sweep() {
      const left = await db.prisma.$queryRaw<Member[]>`
        SELECT DISTINCT w."spaceId", w."agentId" AS "entityId" FROM (
          SELECT "spaceId", "agentId" FROM "InboxEvent" WHERE "doneAt" IS NULL AND "runId" IS NULL
          UNION ALL SELECT "spaceId", "agentId" FROM "InboxEvent" WHERE "retryAt" IS NOT NULL
        ) w WHERE w."spaceId" IS NOT NULL AND NOT EXISTS (
          SELECT 1 FROM "Membership" m WHERE m."spaceId" = w."spaceId" AND m."entityId" = w."agentId")`
      for (const member of left) {
        const ended = await db.transaction((tx) => endWork(tx, member))
        await ended.afterCommit()
      }
    },
  }
}
