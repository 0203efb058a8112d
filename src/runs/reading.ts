import type { Viewer } from '../access/viewer.ts'
import { Prisma, type Run, type RunStatus } from '../generated/prisma/client.ts'
import type { BadInputError } from '../lib/errors.ts'
import { foreignCursor, type Page, type PageRequest } from '../lib/page.ts'
import { fetchIdPages } from '../platform/id-pages.ts'
import type { Platform } from '../platform/platform.ts'
import { isAdmin } from '../rules/permissions.ts'

/** A request for a page of an agent's runs. Cursors of another agent's runs are rejected. */
export interface RunsRequest extends PageRequest {
  /** The ids of the agents to which the cursors belong; null without a cursor. */
  cursorAgents: { after: string | null; before: string | null }
}

/** A filter for runs. A field that is absent or null does not restrict the result. */
export interface RunFilter {
  agentId?: string | null
  /**
   * Only runs that this space triggered or that posted in the space. There are none if the viewer may not see the
   * space.
   */
  spaceId?: string | null
  rootId?: string | null
  status?: readonly RunStatus[] | null
  /** Only runs that were queued at or after this time. */
  since?: Date | null
}

/** Reads runs in pages. */
export interface RunReading {
  /** Returns a page of the runs that the viewer may see, newest first. */
  page(viewer: Viewer, filter: RunFilter, request: PageRequest): Promise<Page<Run>>
  /** Returns a page of the runs that each run started, oldest first, as far as the viewer may see them. */
  childrenMany(viewer: Viewer, runIds: readonly string[], request: PageRequest): Promise<Page<Run>[]>
  /**
   * Returns a page of the ids of the messages that each run posted, oldest first, as far as the viewer may see them.
   */
  postedMany(viewer: Viewer, runIds: readonly string[], request: PageRequest): Promise<Page<string>[]>
  /**
   * Returns the ids of those runs that were expected to post in a space and completed with a closing text, but posted
   * nothing.
   */
  unheardAmong(runIds: readonly string[]): Promise<Set<string>>
  /**
   * Returns a page of each agent's runs, newest first, as far as the viewer may see them. If `statuses` is null,
   * includes runs with any status. If a cursor belongs to another agent, returns a BadInputError instead of the page.
   * Executes two statements for any number of agents.
   */
  pageMany(
    viewer: Viewer,
    agentIds: readonly string[],
    request: RunsRequest,
    statuses: readonly RunStatus[] | null,
  ): Promise<(Page<Run> | BadInputError)[]>
}

export function createRunReading({ db }: Pick<Platform, 'db'>): RunReading {
  async function rowsOf(pages: Map<string, Page<string>>): Promise<Map<string, Page<Run>>> {
    const ids = [...pages.values()].flatMap(({ items }) => items)
    const rows = await db.prisma.run.findMany({ where: { id: { in: ids } } })
    const byId = new Map(rows.map((row) => [row.id, row]))
    return new Map(
      [...pages].map(([parent, page]) => [parent, { ...page, items: page.items.flatMap((id) => byId.get(id) ?? []) }]),
    )
  }

  return {
    async page(viewer, filter, request) {
      const source = Prisma.sql`SELECT r.id FROM "Run" r WHERE ${visibleTo(viewer)} ${conditionsOf(viewer, filter)}`
      const pages = await fetchIdPages(db.prisma, { parents: [''], source, order: 'newest', request })
      return (await rowsOf(pages)).get('')!
    },
    async childrenMany(viewer, runIds, request) {
      const source = Prisma.sql`SELECT r.id FROM "Run" r WHERE r."parentRunId" = parent.id AND ${visibleTo(viewer)}`
      const parents = [...new Set(runIds)]
      const pages = await rowsOf(await fetchIdPages(db.prisma, { parents, source, order: 'oldest', request }))
      return runIds.map((id) => pages.get(id)!)
    },
    async postedMany(viewer, runIds, request) {
      const source = Prisma.sql`SELECT m.id FROM "Message" m WHERE m."runId" = parent.id
        AND ${isSpaceOf(viewer, Prisma.sql`m."spaceId"`)}`
      const pages = await fetchIdPages(db.prisma, { parents: [...new Set(runIds)], source, order: 'oldest', request })
      return runIds.map((id) => pages.get(id)!)
    },
    async unheardAmong(runIds) {
      const rows = await db.prisma.$queryRaw<{ id: string }[]>`
        SELECT id FROM "Run" r WHERE id = ANY(${[...runIds]}::text[]) AND status = 'COMPLETED' AND "stopReason" = 'FINISHED'
          AND summary IS NOT NULL AND "triggerType" NOT IN ('PLAN', 'SERVICE')
          AND NOT EXISTS (SELECT 1 FROM "Message" m WHERE m."runId" = r.id)`
      return new Set(rows.map(({ id }) => id))
    },
    async pageMany(viewer, agentIds, request, statuses) {
      const source = sourceOf(viewer, statuses)
      const parents = [...new Set(agentIds)]
      const pages = await rowsOf(await fetchIdPages(db.prisma, { parents, source, order: 'newest', request }))
      return agentIds.map((agentId) => {
        const { after, before } = request.cursorAgents
        if ((after ?? agentId) !== agentId) return foreignCursor('after')
        if ((before ?? agentId) !== agentId) return foreignCursor('before')
        return pages.get(agentId)!
      })
    },
  }
}

/** Selects the ids of the agent's runs that the viewer may see, by the same rule as access/visibility.ts. */
function sourceOf(viewer: Viewer, statuses: readonly RunStatus[] | null): Prisma.Sql {
  const status =
    statuses === null ? Prisma.empty : Prisma.sql`AND r.status = ANY(${[...statuses]}::text[]::"RunStatus"[])`
  return Prisma.sql`SELECT r.id FROM "Run" r WHERE r."agentId" = parent.id ${status} AND ${visibleTo(viewer)}`
}

function conditionsOf(viewer: Viewer, { agentId, spaceId, rootId, status, since }: RunFilter): Prisma.Sql {
  const conditions = [
    agentId == null ? null : Prisma.sql`r."agentId" = ${agentId}`,
    rootId == null ? null : Prisma.sql`r."rootId" = ${rootId}`,
    status == null ? null : Prisma.sql`r.status = ANY(${[...status]}::text[]::"RunStatus"[])`,
    since == null ? null : Prisma.sql`r."queuedAt" >= ${since}`,
    spaceId == null
      ? null
      : Prisma.sql`(${isSpaceOf(viewer, Prisma.sql`${spaceId}`)} AND (r."triggerSpaceId" = ${spaceId} OR EXISTS (
          SELECT 1 FROM "RunSpace" written WHERE written."runId" = r.id AND written."spaceId" = ${spaceId})))`,
  ].filter((condition) => condition !== null)
  return Prisma.join([Prisma.empty, ...conditions], ' AND ')
}

/**
 * Condition: the viewer may see the space. Without this condition, pages would reveal which runs posted in other
 * spaces.
 */
function isSpaceOf(viewer: Viewer, spaceId: Prisma.Sql): Prisma.Sql {
  if (isAdmin(viewer)) return Prisma.sql`true`
  if (viewer.scope !== 'HUMAN') return Prisma.sql`false`
  return Prisma.sql`EXISTS (SELECT 1 FROM "Membership" own WHERE own."spaceId" = ${spaceId} AND own."entityId" = ${viewer.id})`
}

function visibleTo(viewer: Viewer): Prisma.Sql {
  if (isAdmin(viewer)) return Prisma.sql`true`
  if (viewer.scope === 'SERVICE') return Prisma.sql`r."triggerServiceId" = ${viewer.id}`
  return Prisma.sql`(
    EXISTS (SELECT 1 FROM "Membership" m WHERE m."spaceId" = r."triggerSpaceId" AND m."entityId" = ${viewer.id})
    OR EXISTS (
      SELECT 1 FROM "RunSpace" written JOIN "Membership" m USING ("spaceId")
      WHERE written."runId" = r.id AND m."entityId" = ${viewer.id}))`
}
