import { type PlanFiring, Prisma } from '../generated/prisma/client.ts'
import { wellFormedIds } from '../lib/ids.ts'
import { inOrderOf } from '../lib/in-order.ts'
import type { Page, PageRequest } from '../lib/page.ts'
import { fetchIdPages } from '../platform/id-pages.ts'
import type { Platform } from '../platform/platform.ts'
import { firingKey } from './slots.ts'

/** Reads the firings of plans, for admins. */
export interface FiringReading {
  getMany(ids: readonly string[]): Promise<(PlanFiring | null)[]>
  /**
   * Returns a page of each plan's firings, newest first, in the order of the ids. Executes two statements for any
   * number of plans.
   */
  pageMany(planIds: readonly string[], request: PageRequest): Promise<Page<PlanFiring>[]>
  /**
   * Returns the id of the run of each firing, in order; null if there is none. For a persistent agent, this is the
   * cycle that claimed the event.
   */
  runsOf(firings: readonly PlanFiring[]): Promise<(string | null)[]>
}

export function createFiringReading({ db }: Pick<Platform, 'db'>): FiringReading {
  async function getMany(ids: readonly string[]): Promise<(PlanFiring | null)[]> {
    const rows = await db.prisma.planFiring.findMany({ where: { id: { in: wellFormedIds(ids) } } })
    return inOrderOf(ids, rows)
  }

  return {
    getMany,
    async pageMany(planIds, request) {
      const source = Prisma.sql`SELECT id FROM "PlanFiring" WHERE "planId" = parent.id`
      const pages = await fetchIdPages(db.prisma, { parents: [...new Set(planIds)], source, order: 'newest', request })
      const found = await getMany([...pages.values()].flatMap(({ items }) => items))
      const firings = new Map(found.flatMap((firing) => (firing === null ? [] : [[firing.id, firing]])))
      return planIds.map((planId) => {
        const page = pages.get(planId) ?? { items: [], hasNextPage: false, hasPreviousPage: false }
        return { ...page, items: page.items.flatMap((id) => firings.get(id) ?? []) }
      })
    },
    async runsOf(firings) {
      const keys = firings.map(firingKey)
      const rows = await db.prisma.$queryRaw<{ key: string; runId: string | null }[]>`
        SELECT "dedupKey" AS key, id AS "runId" FROM "Run" WHERE "dedupKey" = ANY(${keys}::text[])
        UNION ALL
        SELECT e."dedupKey", e."runId" FROM "Plan" p JOIN "InboxEvent" e ON e."agentId" = p."agentId"
        WHERE p.id = ANY(${firings.map(({ planId }) => planId)}::text[]) AND e."dedupKey" = ANY(${keys}::text[])`
      const runs = new Map(rows.map(({ key, runId }) => [key, runId]))
      return keys.map((key) => runs.get(key) ?? null)
    },
  }
}
