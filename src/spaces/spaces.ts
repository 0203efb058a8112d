import type { Viewer } from '../access/viewer.ts'
import { Prisma, type Space } from '../generated/prisma/client.ts'
import { wellFormedIds } from '../lib/ids.ts'
import { inOrderOf } from '../lib/in-order.ts'
import type { Page, PageRequest } from '../lib/page.ts'
import { fetchPage } from '../platform/id-pages.ts'
import type { Platform } from '../platform/platform.ts'
import { isAdmin } from '../rules/permissions.ts'

/** Reads spaces. */
export interface Spaces {
  /** Returns spaces in the order of the ids; null for an unknown id. Does not check access. */
  getMany(ids: readonly string[]): Promise<(Space | null)[]>
  /** Returns a page of the viewer's spaces, newest first. An admin gets all spaces. */
  page(viewer: Viewer, request: PageRequest): Promise<Page<Space>>
  /**
   * Returns the agent of each space that receives humans' messages under ADMIN routing. This is the configured agent,
   * if it is still a member. If none is configured, it is the only agent of the space. The map has no entry for a space
   * without such an agent.
   */
  adminAgentsOf(spaceIds: readonly string[]): Promise<Map<string, string>>
}

export function createSpaces({ db }: Pick<Platform, 'db'>): Spaces {
  async function getMany(ids: readonly string[]): Promise<(Space | null)[]> {
    const rows = await db.prisma.space.findMany({ where: { id: { in: wellFormedIds(ids) }, deletedAt: null } })
    return inOrderOf(ids, rows)
  }

  return {
    getMany,
    async page(viewer, request) {
      const source = isAdmin(viewer)
        ? Prisma.sql`SELECT id FROM "Space" WHERE "deletedAt" IS NULL`
        : viewer.scope === 'HUMAN'
          ? Prisma.sql`SELECT "spaceId" AS id FROM "Membership" WHERE "entityId" = ${viewer.id}`
          : Prisma.sql`SELECT id FROM "Space" WHERE false`
      return fetchPage(db.prisma, { source, request }, getMany)
    },
    async adminAgentsOf(spaceIds) {
      const rows = await db.prisma.$queryRaw<{ spaceId: string; agentId: string }[]>`
        SELECT s.id AS "spaceId", min(m."entityId") AS "agentId"
        FROM "Space" s JOIN "Membership" m ON m."spaceId" = s.id JOIN "Agent" a ON a.id = m."entityId"
        WHERE s.id = ANY(${[...spaceIds]}::text[]) AND coalesce(s."adminAgentId", m."entityId") = m."entityId"
        GROUP BY s.id HAVING count(*) = 1`
      return new Map(rows.map(({ spaceId, agentId }) => [spaceId, agentId]))
    },
  }
}
