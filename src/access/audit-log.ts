import { type AuditEntry, Prisma } from '../generated/prisma/client.ts'
import { wellFormedIds } from '../lib/ids.ts'
import { inOrderOf } from '../lib/in-order.ts'
import { storableText } from '../lib/json.ts'
import type { Page, PageRequest } from '../lib/page.ts'
import { fetchIdPages } from '../platform/id-pages.ts'
import type { Platform } from '../platform/platform.ts'

/** Filters for the audit log. A field that is absent or null does not restrict the result. */
export interface AuditFilter {
  actorId?: string | null
  targetId?: string | null
  action?: string | null
  from?: Date | null
  /** The end of the period, exclusive. */
  to?: Date | null
}

/**
 * Reads the audit log, which shows who created, changed, removed, stopped, answered, decided or revoked something.
 * access/record.ts and some tools write its entries.
 */
export interface AuditLog {
  /** Returns entries, newest first. */
  page(filter: AuditFilter, request: PageRequest): Promise<Page<AuditEntry>>
  /** Returns entries in the order of the ids; null for an unknown id. */
  getMany(ids: readonly string[]): Promise<(AuditEntry | null)[]>
}

export function createAuditLog({ db }: Pick<Platform, 'db'>): AuditLog {
  async function getMany(ids: readonly string[]): Promise<(AuditEntry | null)[]> {
    const rows = await db.prisma.auditEntry.findMany({ where: { id: { in: wellFormedIds(ids) } } })
    return inOrderOf(ids, rows)
  }

  return {
    getMany,
    async page({ actorId, targetId, action, from, to }, request) {
      const conditions = [
        actorId == null ? null : Prisma.sql`"actorId" = ${actorId}`,
        targetId == null ? null : Prisma.sql`"targetId" = ${targetId}`,
        action == null ? null : Prisma.sql`action = ${storableText(action)}`,
        from == null ? null : Prisma.sql`at >= ${from}`,
        to == null ? null : Prisma.sql`at < ${to}`,
      ].filter((condition) => condition !== null)
      const source = Prisma.sql`SELECT id FROM "AuditEntry" WHERE true ${Prisma.join([Prisma.empty, ...conditions], ' AND ')}`
      const pages = await fetchIdPages(db.prisma, { parents: [''], source, order: 'newest', request })
      const page = pages.get('')!
      return { ...page, items: (await getMany(page.items)).filter((entry) => entry !== null) }
    },
  }
}
