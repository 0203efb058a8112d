import { type InboxEvent, Prisma } from '../generated/prisma/client.ts'
import { wellFormedIds } from '../lib/ids.ts'
import { inOrderOf } from '../lib/in-order.ts'
import type { Page, PageRequest } from '../lib/page.ts'
import { fetchIdPages } from '../platform/id-pages.ts'
import type { Platform } from '../platform/platform.ts'

/** Reads the waiting inbox events, for admins. */
export interface InboxReading {
  getMany(ids: readonly string[]): Promise<(InboxEvent | null)[]>
  /**
   * Returns a page of each agent's events, in the order of the ids. The events, oldest first, are those that no cycle
   * has claimed or that will be retried. Executes two statements for any number of agents.
   */
  pageMany(agentIds: readonly string[], request: PageRequest): Promise<Page<InboxEvent>[]>
}

export function createInboxReading({ db }: Platform): InboxReading {
  async function getMany(ids: readonly string[]): Promise<(InboxEvent | null)[]> {
    const rows = await db.prisma.inboxEvent.findMany({ where: { id: { in: wellFormedIds(ids) } } })
    return inOrderOf(ids, rows)
  }

  return {
    getMany,
    async pageMany(agentIds, request) {
      const source = Prisma.sql`
        SELECT id FROM "InboxEvent" WHERE "agentId" = parent.id AND "doneAt" IS NULL AND ("runId" IS NULL OR "retryAt" IS NOT NULL)`
      const pages = await fetchIdPages(db.prisma, { parents: [...new Set(agentIds)], source, order: 'oldest', request })
      const ids = [...pages.values()].flatMap(({ items }) => items)
      const events = new Map((await getMany(ids)).flatMap((event) => (event === null ? [] : [[event.id, event]])))
      return agentIds.map((agentId) => {
        const page = pages.get(agentId) ?? { items: [], hasNextPage: false, hasPreviousPage: false }
        return { ...page, items: page.items.flatMap((id) => events.get(id) ?? []) }
      })
    },
  }
}
