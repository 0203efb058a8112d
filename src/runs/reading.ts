import type { Viewer } from '../access/viewer.ts'
import { Prisma, type Run, type RunStatus } from '../generated/prisma/client.ts'
import type { BadInputError } from '../lib/errors.ts'
import { foreignCursor, type Page, type PageRequest } from '../lib/page.ts'
import { fetchIdPages } from '../platform/id-pages.ts'
import type { Platform } from '../platform/platform.ts'

/** A page request within the runs of one agent: a cursor of another agent's is none here. */
export interface RunsRequest extends PageRequest {
  /** The agents whose cursors were given; null where none was. */
  cursorAgents: { after: string | null; before: string | null }
}

/** Runs, page by page. */
export interface RunReading {
  /**
   * A page of each agent's runs that the viewer may see, newest first, in the order of the ids; `statuses` null for all.
   * A BadInputError in place of a page where a cursor is of another agent's runs. Two statements, however many agents.
   */
  pageMany(
    viewer: Viewer,
    agentIds: readonly string[],
    request: RunsRequest,
    statuses: readonly RunStatus[] | null,
  ): Promise<(Page<Run> | BadInputError)[]>
}

export function createRunReading({ db }: Pick<Platform, 'db'>): RunReading {
  return {
    async pageMany(viewer, agentIds, request, statuses) {
      const source = sourceOf(viewer, statuses)
      const pages = await fetchIdPages(db.prisma, { parents: [...new Set(agentIds)], source, order: 'newest', request })
      const ids = [...pages.values()].flatMap(({ items }) => items)
      const rows = await db.prisma.run.findMany({ where: { id: { in: ids } } })
      const byId = new Map(rows.map((row) => [row.id, row]))
      return agentIds.map((agentId) => {
        const { after, before } = request.cursorAgents
        if ((after ?? agentId) !== agentId) return foreignCursor('after')
        if ((before ?? agentId) !== agentId) return foreignCursor('before')
        const page = pages.get(agentId)!
        return { ...page, items: page.items.flatMap((id) => byId.get(id) ?? []) }
      })
    },
  }
}

/** The ids of the parent agent's runs that the viewer may see: the same rule as in access/visibility.ts, as a filter. */
function sourceOf(viewer: Viewer, statuses: readonly RunStatus[] | null): Prisma.Sql {
  const status =
    statuses === null ? Prisma.empty : Prisma.sql`AND r.status = ANY(${[...statuses]}::text[]::"RunStatus"[])`
  return Prisma.sql`SELECT r.id FROM "Run" r WHERE r."agentId" = parent.id ${status} AND ${visibleTo(viewer)}`
}

function visibleTo(viewer: Viewer): Prisma.Sql {
  switch (viewer.scope) {
    case 'ADMIN':
      return Prisma.sql`true`
    case 'SERVICE':
      return Prisma.sql`r."triggerServiceId" = ${viewer.id}`
    case 'HUMAN':
      return Prisma.sql`(
        EXISTS (SELECT 1 FROM "Membership" m WHERE m."spaceId" = r."triggerSpaceId" AND m."entityId" = ${viewer.id})
        OR EXISTS (
          SELECT 1 FROM "RunSpace" written JOIN "Membership" m USING ("spaceId")
          WHERE written."runId" = r.id AND m."entityId" = ${viewer.id}))`
  }
}
