import type { Viewer } from '../access/viewer.ts'
import type { Visibility } from '../access/visibility.ts'
import { type InboxEvent, Prisma } from '../generated/prisma/client.ts'
import { PUBLISH_CHANGE } from '../jobs/queues.ts'
import { ForbiddenError, messageOf, NotFoundError } from '../lib/errors.ts'
import { sweepRows } from '../lib/sweep-rows.ts'
import type { Database, Tx } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'
import { isAdmin } from '../rules/permissions.ts'
import { WHY_DROPPED } from '../rules/run-end.ts'
import type { SpacePublisher } from '../spaces/space-publisher.ts'
import { deleteCallsOfMessagesSql, expireCallsOfSpace } from '../stores/call-store.ts'
import { deleteChainsOfSpace } from '../stores/chain-store.ts'
import { deleteGrantsOfSpace } from '../stores/grant-store.ts'
import { deleteJoinLinks } from '../stores/join-link-store.ts'
import { deleteMembersIn } from '../stores/membership-store.ts'
import { deleteMessagesSql, lockOldestMessagesSql } from '../stores/message-store.ts'
import { deleteOutcomesSql } from '../stores/outcome-store.ts'
import { deleteRunSpaces } from '../stores/run-store.ts'
import {
  forgetForks,
  hideSpace,
  lockChangingSpace,
  NO_SUCH_SPACE,
  REMAINS,
  removeSpace,
} from '../stores/space-store.ts'
import { deleteThreadsOfSpace } from '../stores/thread-store.ts'
import { deleteIdleRootUsageSql } from '../stores/usage-store.ts'
import type { AgentDeletion } from './delete-agent.ts'
import { endEvents } from './end-events.ts'
import { forgetSpaceWithCopies } from './forget.ts'
import type { Lifecycle } from './lifecycle.ts'

export interface SpaceDeletion {
  /**
   * Deletes a space. Only admins and the last human member may do this. One transaction hides the space from
   * everybody, removes what agents learned in it, deletes copied agents that were in no other space, and ends
   * everything that waits in it. After the commit, ends its active runs as CANCELED (GONE), and removes its rows in
   * batches. If many rows remain, a worker removes them.
   * @throws ForbiddenError, NotFoundError
   */
  deleteSpace(viewer: Viewer, input: { id: string }): Promise<{ deletedSpaceId: string }>
  /**
   * Removes the rows of deleted spaces, including those whose deletion was interrupted. If one space fails, the
   * others continue.
   * @param signal ends the sweep after the current batch; the next sweep continues
   */
  sweep(signal?: AbortSignal): Promise<void>
}

interface DeletionParts {
  agents: Pick<AgentDeletion, 'deleteLoneCopies'>
  visibility: Pick<Visibility, 'spaces'>
  lifecycle: Pick<Lifecycle, 'endGone'>
  publisher: Pick<SpacePublisher, 'deleted'>
}

const MESSAGES_AT_ONCE = 500
/** The number of batches that a deletion removes before it returns. Workers remove the rest. */
const MOST_BATCHES = 20

export function createSpaceDeletion(
  platform: Platform,
  { agents, visibility, lifecycle, publisher }: DeletionParts,
): SpaceDeletion {
  const { db, clock, jobs, logger } = platform

  return {
    async deleteSpace(viewer, { id }) {
      if (!(await visibility.spaces(viewer, [id])).has(id)) throw new NotFoundError(NO_SUCH_SPACE)
      if (!isAdmin(viewer)) await checkIsLastHuman(db.prisma, id)
      const { memberIds, change, ended, removal } = await db.transaction(async (tx) => {
        const { memberIds, agentIds, events, change } = await hide(tx, viewer, id, new Date(clock.now()))
        const ended = await endEvents(tx, platform, { events, reason: WHY_DROPPED })
        const removal = await agents.deleteLoneCopies(tx, agentIds)
        return { memberIds, change, ended, removal }
      })
      await publisher.deleted(id, memberIds)
      jobs.withdraw(PUBLISH_CHANGE, change)
      await ended.afterCommit()
      await removal.afterCommit()
      await lifecycle.endGone()
      await remove(db, id, { mostBatches: MOST_BATCHES })
      return { deletedSpaceId: id }
    },
    async sweep(signal) {
      const isDeleted = { deletedAt: { not: null }, NOT: REMAINS }
      const nextDeleted = (after: string, most: number) =>
        db.prisma.space.findMany({
          where: { ...isDeleted, id: { gt: after } },
          select: { id: true },
          orderBy: { id: 'asc' },
          take: most,
        })
      if ((await nextDeleted('', 1)).length > 0) await lifecycle.endGone()
      await sweepRows({
        next: nextDeleted,
        handle: ({ id }) => remove(db, id, { signal }),
        report: ({ id }, error) =>
          logger.warn(
            { spaceId: id, error: messageOf(error) },
            'could not remove a deleted space; the next sweep continues',
          ),
        signal,
      })
      await forgetForks(db.prisma)
    },
  }
}

const NOT_THE_LAST = 'Only an admin or the last human member can delete a space; to leave the space, use removeMember.'

/**
 * Checks that the viewer is the last human member. Called before the space is locked, and again afterwards.
 * @throws ForbiddenError
 */
async function checkIsLastHuman(tx: Tx, spaceId: string): Promise<void> {
  const humans = await tx.membership.count({ where: { spaceId, entity: { kind: 'HUMAN' } } })
  if (humans > 1) throw new ForbiddenError(NOT_THE_LAST)
}

/** The agents and events that the deletion of a space affects. */
interface Hidden {
  memberIds: string[]
  /** The agents that are or were members of the space. */
  agentIds: string[]
  /** Events from other spaces that agents forget together with this space. */
  events: InboxEvent[]
  /** The key of the job that publishes the deletion if this process dies before it can. */
  change: string
}

async function hide(tx: Tx, viewer: Viewer, spaceId: string, deletedAt: Date): Promise<Hidden> {
  const { change } = await lockChangingSpace(tx, spaceId)
  const known = await tx.$queryRaw<{ id: string; kind: string; isMember: boolean }[]>`
    SELECT e.id, e.kind::text, m."entityId" IS NOT NULL AS "isMember" FROM "Entity" e
    LEFT JOIN "Membership" m ON m."entityId" = e.id AND m."spaceId" = ${spaceId}
    LEFT JOIN "FormerMember" f ON f."entityId" = e.id AND f."spaceId" = ${spaceId}
    WHERE m."entityId" IS NOT NULL OR f."entityId" IS NOT NULL`
  const members = known.filter(({ isMember }) => isMember)
  const humans = members.filter(({ kind }) => kind === 'HUMAN').map(({ id }) => id)
  if (!isAdmin(viewer) && !humans.includes(viewer.id)) throw new NotFoundError(NO_SUCH_SPACE)
  if (!isAdmin(viewer) && humans.length > 1) throw new ForbiddenError(NOT_THE_LAST)
  await deleteMembersIn(tx, spaceId)
  await deleteJoinLinks(tx, { spaceId })
  await deleteChainsOfSpace(tx, spaceId)
  await expireCallsOfSpace(tx, spaceId)
  await deleteGrantsOfSpace(tx, spaceId)
  const agentIds = known.filter(({ kind }) => kind === 'AGENT').map(({ id }) => id)
  const events = await forgetSpaceWithCopies(tx, { spaceId, agentIds })
  await hideSpace(tx, spaceId, deletedAt)
  return { memberIds: members.map(({ id }) => id), agentIds, events, change }
}

/**
 * Removes the rows of a space that nobody can see any more. Uses small statements, so that other statements do not
 * wait long for locks.
 */
async function remove(
  { prisma }: Database,
  spaceId: string,
  { mostBatches = Number.POSITIVE_INFINITY, signal }: { mostBatches?: number; signal?: AbortSignal | undefined },
): Promise<void> {
  for (let batch = 0; ; batch++) {
    if (batch === mostBatches || signal?.aborted) return
    const removed = await prisma.$executeRaw`
      WITH few AS (${lockOldestMessagesSql(spaceId, MESSAGES_AT_ONCE)}), outcomes AS (
        ${deleteOutcomesSql(Prisma.sql`SELECT id FROM few`)}
      ), roots AS (
        ${deleteIdleRootUsageSql(Prisma.sql`SELECT id FROM few`)}
      ), calls AS (
        ${deleteCallsOfMessagesSql(Prisma.sql`SELECT id FROM few`)}
      ) ${deleteMessagesSql(Prisma.sql`SELECT id FROM few`)}`
    if (removed === 0) break
  }
  await deleteRunSpaces(prisma, spaceId)
  await deleteThreadsOfSpace(prisma, spaceId)
  await removeSpace(prisma, spaceId)
}
