import type { Entity } from '../generated/prisma/client.ts'
import type { Platform } from '../platform/platform.ts'

/** Reads memberships of spaces. */
export interface Members {
  /** The members of each space in join order. Spaces without members are omitted. */
  listMany(spaceIds: readonly string[]): Promise<Map<string, Entity[]>>
  /** The agents of each space that are in other spaces too, in join order. Spaces without such agents are omitted. */
  agentsElsewhere(spaceIds: readonly string[]): Promise<Map<string, Entity[]>>
  /** The spaces of an entity, newest first. */
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
