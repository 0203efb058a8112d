import type { Entity } from '../generated/prisma/client.ts'
import type { Platform } from '../platform/platform.ts'

/** Reads memberships of spaces. */
export interface Members {
  /**
   * Returns the members of each space in the order in which they joined. The map has no entry for a space without
   * members.
   */
  listMany(spaceIds: readonly string[]): Promise<Map<string, Entity[]>>
  /**
   * Returns the agents of each space that are also members of other spaces, in the order in which they joined. The
   * map has no entry for a space without such agents.
   */
  agentsElsewhere(spaceIds: readonly string[]): Promise<Map<string, Entity[]>>
  /** Returns the ids of an entity's spaces, newest first. */
  spacesOf(entityId: string): Promise<string[]>
}

export function createMembers({ db }: Pick<Platform, 'db'>): Members {
  return {
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
