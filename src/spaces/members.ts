import type { Viewer } from '../access/viewer.ts'
import type { Visibility } from '../access/visibility.ts'
import type { Entity, Space } from '../generated/prisma/client.ts'
import { ConflictError, LimitExceededError, NotFoundError } from '../lib/errors.ts'
import { prefixOf } from '../lib/ids.ts'
import type { Tx } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'
import { checkAgentsMayJoin } from './joining.ts'
import type { SpacePublisher } from './space-publisher.ts'

/** Maximum members of one space. */
export const MOST_MEMBERS = 500

export interface MemberInput {
  spaceId: string
  entityId: string
}

/** Memberships of spaces. */
export interface Members {
  /**
   * Adds an entity that the viewer can see; for members and admins. Earlier messages count as read
   * for a new or returning member.
   * @throws NotFoundError; ConflictError for a member; ForbiddenError by the agent's `addableBy`;
   * LimitExceededError over 500 members, or over 1,000 spaces of an agent
   */
  add(viewer: Viewer, input: MemberInput): Promise<Space>
  /**
   * Removes a member; for members and admins. `space` is null for a viewer who has left by this. An
   * admin agent that leaves keeps the role in the settings and resumes it on return; in between the
   * space has no admin agent.
   */
  remove(viewer: Viewer, input: MemberInput): Promise<{ spaceId: string; entityId: string; space: Space | null }>
  /** Locks the spaces of an entity that is being deleted until the transaction ends. */
  lockSpacesOf(tx: Tx, entityId: string): Promise<void>
  /** In the transaction that deletes an entity: ends all its memberships. */
  leaveAll(tx: Tx, entityId: string): Promise<{ afterCommit(): Promise<void> }>
  /** The members of each space in join order. A space without any is left out. */
  listMany(spaceIds: readonly string[]): Promise<Map<string, Entity[]>>
  /** The agents of each space that are in other spaces too, in join order. A space without any is left out. */
  agentsElsewhere(spaceIds: readonly string[]): Promise<Map<string, Entity[]>>
  /** The spaces of an entity, newest first. */
  spacesOf(entityId: string): Promise<string[]>
}

export interface MembersHooks {
  /** In the transaction that ends a membership: cleans up what the space had started. */
  onLeft(tx: Tx, member: MemberInput): Promise<{ afterCommit(): Promise<void> }>
  /** An entity joined or returned. */
  onJoined(spaceId: string): Promise<void>
}

export function createMembers(
  platform: Platform,
  visibility: Pick<Visibility, 'spaces' | 'entities'>,
  publisher: SpacePublisher,
  hooks: MembersHooks,
): Members {
  const { db, clock } = platform

  async function checkSpace(viewer: Viewer, spaceId: string): Promise<void> {
    const visible = await visibility.spaces(viewer, [spaceId])
    if (!visible.has(spaceId)) throw new NotFoundError(NO_SUCH_SPACE)
  }

  return {
    async add(viewer, { spaceId, entityId }) {
      await checkSpace(viewer, spaceId)
      const visible = await visibility.entities(viewer, [entityId])
      if (!visible.has(entityId)) throw new NotFoundError(NO_SUCH_ENTITY)
      const space = await db.transaction(async (tx) => {
        await checkAgentsMayJoin(tx, viewer, [entityId])
        return insertMember(tx, spaceId, entityId, clock.now())
      })
      await publisher.joined(spaceId, entityId)
      await hooks.onJoined(spaceId)
      return space
    },
    async remove(viewer, { spaceId, entityId }) {
      await checkSpace(viewer, spaceId)
      if (prefixOf(entityId) === null) throw new NotFoundError(NO_SUCH_MEMBER)
      const { space, left } = await db.transaction(async (tx) => {
        const space = await lockSpace(tx, spaceId)
        const { count } = await tx.membership.deleteMany({ where: { spaceId, entityId } })
        if (count === 0) throw new NotFoundError(NO_SUCH_MEMBER)
        await tx.formerMember.createMany({ data: { spaceId, entityId }, skipDuplicates: true })
        return { space, left: await hooks.onLeft(tx, { spaceId, entityId }) }
      })
      await publisher.left(spaceId, entityId)
      await left.afterCommit()
      return { spaceId, entityId, space: viewer.id === entityId ? null : space }
    },
    async lockSpacesOf(tx, entityId) {
      await tx.$queryRaw`
        SELECT 1 FROM "Space" WHERE id IN (SELECT "spaceId" FROM "Membership" WHERE "entityId" = ${entityId})
        ORDER BY id FOR UPDATE`
    },
    async leaveAll(tx, entityId) {
      const rows = await tx.$queryRaw<{ spaceId: string }[]>`
        WITH gone AS (DELETE FROM "Membership" WHERE "entityId" = ${entityId} RETURNING "spaceId"), former AS (
          INSERT INTO "FormerMember" ("spaceId", "entityId") SELECT "spaceId", ${entityId} FROM gone ON CONFLICT DO NOTHING
        ) SELECT "spaceId" FROM gone ORDER BY "spaceId"`
      const left: (() => Promise<void>)[] = []
      for (const { spaceId } of rows) left.push((await hooks.onLeft(tx, { spaceId, entityId })).afterCommit)
      return {
        async afterCommit() {
          for (const { spaceId } of rows) await publisher.left(spaceId, entityId)
          for (const after of left) await after()
        },
      }
    },
    async listMany(spaceIds) {
      const rows = await db.prisma.$queryRaw<(Entity & { spaceId: string })[]>`
        SELECT m."spaceId", e.* FROM "Membership" m JOIN "Entity" e ON e.id = m."entityId"
        WHERE m."spaceId" = ANY(${[...spaceIds]}::text[])
        ORDER BY m."spaceId", m."joinedAt", m."entityId"`
      return Map.groupBy(rows, ({ spaceId }) => spaceId)
    },
    async agentsElsewhere(spaceIds) {
      const rows = await db.prisma.$queryRaw<(Entity & { spaceId: string })[]>`
        SELECT m."spaceId", e.* FROM "Membership" m JOIN "Entity" e ON e.id = m."entityId" AND e.kind = 'AGENT'
        WHERE m."spaceId" = ANY(${[...spaceIds]}::text[]) AND EXISTS (
          SELECT 1 FROM "Membership" o WHERE o."entityId" = m."entityId" AND o."spaceId" <> m."spaceId")
        ORDER BY m."spaceId", m."joinedAt", m."entityId"`
      return Map.groupBy(rows, ({ spaceId }) => spaceId)
    },
    async spacesOf(entityId) {
      const rows = await db.prisma.membership.findMany({
        where: { entityId },
        orderBy: { spaceId: 'desc' },
        select: { spaceId: true },
      })
      return rows.map(({ spaceId }) => spaceId)
    },
  }
}

/** The error for a space that does not exist or is not visible to the viewer. */
export const NO_SUCH_SPACE = 'There is no such space, or you are not a member of it.'
/** The same for a human or an agent. */
export const NO_SUCH_ENTITY = 'There is no such human or agent, or none that you may see.'
const NO_SUCH_MEMBER = 'There is no such member in this space.'

/** Locks the space's members, message counter and settings until the transaction ends. */
export async function lockSpace(tx: Tx, spaceId: string): Promise<Space> {
  if (prefixOf(spaceId) !== 'spc') throw new NotFoundError(NO_SUCH_SPACE)
  const [space] = await tx.$queryRaw<Space[]>`
    SELECT * FROM "Space" WHERE id = ${spaceId} AND "deletedAt" IS NULL FOR UPDATE`
  if (space === undefined) throw new NotFoundError(NO_SUCH_SPACE)
  return space
}

/**
 * Locks entities that are to become members, so that they are not deleted first.
 * @throws NotFoundError if one does not exist
 */
export async function holdEntities(tx: Tx, ids: readonly string[]): Promise<Pick<Entity, 'id' | 'kind'>[]> {
  const found = await tx.$queryRaw<Pick<Entity, 'id' | 'kind'>[]>`
    SELECT id, kind::text FROM "Entity" WHERE id = ANY(${[...ids]}::text[]) AND "goneAt" IS NULL ORDER BY id FOR SHARE`
  if (found.length < new Set(ids).size) throw new NotFoundError(NO_SUCH_ENTITY)
  return found
}

async function insertMember(tx: Tx, spaceId: string, entityId: string, now: number): Promise<Space> {
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
  // Keeps join order independent of the clocks of different processes.
  const joinedAt = new Date(Math.max(now, (last.joinedAt?.getTime() ?? 0) + 1))
  await tx.membership.create({ data: { spaceId, entityId, joinedAt, lastReadSeq: space.lastSeq } })
  return space
}
