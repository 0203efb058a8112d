import type { Viewer } from '../access/viewer.ts'
import type { Visibility } from '../access/visibility.ts'
import { type Entity, Prisma, type Space } from '../generated/prisma/client.ts'
import { PUBLISH_CHANGE } from '../jobs/queues.ts'
import { ConflictError, ForbiddenError, LimitExceededError, NotFoundError } from '../lib/errors.ts'
import type { Tx } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'
import { isAdmin } from '../rules/permissions.ts'
import type { SpacePublisher } from '../spaces/space-publisher.ts'
import { insertMember, type Member } from '../stores/membership-store.ts'
import { lockSpace, NO_SUCH_SPACE } from '../stores/space-store.ts'
import type { DecideCall } from './decide-call.ts'

/** The maximum number of members of one space. */
export const MOST_MEMBERS = 500

/** Adds members to spaces. */
export interface Joining {
  /**
   * Adds a human or agent that the viewer can see to a space. Only members and admins may do this. Marks earlier
   * messages as read for a new or returning member.
   * @throws NotFoundError; ConflictError if the entity is already a member; ForbiddenError if the agent's `addableBy`
   * forbids it; LimitExceededError above 500 members, or above 1,000 spaces of an agent
   */
  add(viewer: Viewer, input: Member): Promise<Space>
}

interface JoiningParts {
  visibility: Pick<Visibility, 'spaces' | 'entities'>
  publisher: Pick<SpacePublisher, 'joined'>
  /** Called after a human joins, because the human may now be able to decide on calls that wait in the space. */
  decideCall: Pick<DecideCall, 'recheck'>
}

export function createJoining(platform: Platform, { visibility, publisher, decideCall }: JoiningParts): Joining {
  const { db, clock, jobs } = platform

  return {
    async add(viewer, { spaceId, entityId }) {
      const spaces = await visibility.spaces(viewer, [spaceId])
      if (!spaces.has(spaceId)) throw new NotFoundError(NO_SUCH_SPACE)
      const entities = await visibility.entities(viewer, [entityId])
      if (!entities.has(entityId)) throw new NotFoundError(NO_SUCH_ENTITY)
      const { space, change } = await db.transaction(async (tx) => {
        await checkAgentsMayJoin(tx, viewer, [entityId])
        return joinSpace(tx, spaceId, entityId, clock.now())
      })
      await publisher.joined(spaceId, entityId, change)
      jobs.withdraw(PUBLISH_CHANGE, change)
      await decideCall.recheck({ spaceId })
      return space
    },
  }
}

/** The error for a human or an agent that does not exist or is not visible to the viewer. */
export const NO_SUCH_ENTITY = 'There is no such human or agent, or you may not see them.'

/**
 * The maximum number of spaces of one agent. The agent's prompt lists all of its spaces, and each of them can wake
 * the agent.
 */
const MOST_SPACES_OF_AGENT = 1000

/**
 * Checks that the viewer may add these agents to a space, and that each agent may join another space. Ignores
 * humans.
 * @throws ForbiddenError if an agent's `addableBy` forbids it; LimitExceededError if an agent is in 1,000 spaces
 */
export async function checkAgentsMayJoin(tx: Tx, viewer: Viewer, ids: readonly string[]): Promise<void> {
  await checkAgentsAreAddable(tx, viewer, ids)
  const [full] = await tx.$queryRaw<unknown[]>`
    SELECT 1 FROM "Agent" a WHERE a.id = ANY(${[...ids]}::text[])
      AND (SELECT count(*) FROM "Membership" m WHERE m."entityId" = a.id) >= ${MOST_SPACES_OF_AGENT} LIMIT 1`
  if (full !== undefined) {
    throw new LimitExceededError(`An agent can be a member of at most ${MOST_SPACES_OF_AGENT} spaces.`)
  }
}

/**
 * Checks that the viewer may add these agents to a space. Ignores humans.
 * @throws ForbiddenError if an agent's `addableBy` forbids it
 */
export async function checkAgentsAreAddable(tx: Tx, viewer: Viewer, ids: readonly string[]): Promise<void> {
  if (isAdmin(viewer)) return
  const shares = Prisma.sql`EXISTS (SELECT 1 FROM "Membership" own JOIN "Membership" its ON its."spaceId" = own."spaceId"
    WHERE own."entityId" = ${viewer.id} AND its."entityId" = a.id)`
  const [closed] = await tx.$queryRaw<unknown[]>`
    SELECT 1 FROM "Agent" a WHERE a.id = ANY(${[...ids]}::text[])
      AND (a."addableBy" = 'ADMINS' OR (a."addableBy" = 'SHARES_SPACE' AND NOT ${shares})) LIMIT 1`
  if (closed !== undefined) throw new ForbiddenError('You may not add this agent (see its addableBy): ask an admin.')
}

/**
 * Locks entities that are about to become members, so that nobody can delete them first.
 * @throws NotFoundError if an entity does not exist
 */
export async function holdEntities(tx: Tx, ids: readonly string[]): Promise<Pick<Entity, 'id' | 'kind'>[]> {
  const found = await tx.$queryRaw<Pick<Entity, 'id' | 'kind'>[]>`
    SELECT id, kind::text FROM "Entity" WHERE id = ANY(${[...ids]}::text[]) AND "goneAt" IS NULL ORDER BY id FOR SHARE`
  if (found.length < new Set(ids).size) throw new NotFoundError(NO_SUCH_ENTITY)
  return found
}

/**
 * Adds an entity to a space. Marks all earlier messages as read. `change` is the key of the job that publishes the
 * membership if this process dies before it can (change-store.ts).
 * @throws ConflictError, LimitExceededError, NotFoundError
 */
export async function joinSpace(
  tx: Tx,
  spaceId: string,
  entityId: string,
  now: number,
): Promise<{ space: Space; change: string }> {
  const space = await lockSpace(tx, spaceId)
  await holdEntities(tx, [entityId])
  const { _count: count, _max: last } = await tx.membership.aggregate({
    where: { spaceId },
    _count: true,
    _max: { joinedAt: true },
  })
  const isMember = (await tx.membership.count({ where: { spaceId, entityId } })) > 0
  if (isMember) throw new ConflictError('This entity is already a member of the space.')
  if (count >= MOST_MEMBERS) throw new LimitExceededError(`A space has at most ${MOST_MEMBERS} members.`)
  // The order of joining must not depend on the clocks of different processes.
  const joinedAt = new Date(Math.max(now, (last.joinedAt?.getTime() ?? 0) + 1))
  const { change } = await insertMember(tx, { spaceId, entityId, joinedAt, lastReadSeq: space.lastSeq })
  return { space, change }
}
