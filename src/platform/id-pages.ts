import { Prisma } from '../generated/prisma/client.ts'
import { type Page, type PageRequest, pageOf } from '../lib/page.ts'
import type { Tx } from './db.ts'

export interface IdPagesQuery {
  /** The parents. Each parent gets its own page. For a root connection, this is any single name. */
  parents: readonly string[]
  /** A SELECT that returns the column `id`. `parent.id` refers to the parent. */
  source: Prisma.Sql
  /** The order by id. Ids are in the order of creation. */
  order: 'newest' | 'oldest'
  request: PageRequest
}

interface Row {
  parentId: string
  id: string
  /** The row's place: -1 before the page, 0 in the page, 1 after the page. */
  side: number
}

/**
 * Returns one page of ids for each parent, with one statement for all parents. `hasNextPage` and `hasPreviousPage` are
 * exact: rows at or beyond the cursors are considered only if they still belong to the connection.
 */
export async function fetchIdPages(prisma: Tx, query: IdPagesQuery): Promise<Map<string, Page<string>>> {
  const { parents, request } = query
  const rows = parents.length === 0 ? [] : await prisma.$queryRaw<Row[]>(statementOf(query))
  const byParent = Map.groupBy(rows, ({ parentId }) => parentId)
  return new Map(parents.map((parent) => [parent, pageOfRows(request, byParent.get(parent) ?? [])]))
}

/**
 * Returns a page of a root connection, newest first. `getMany` loads the objects with the ids that `source` selects.
 */
export async function fetchPage<T>(
  prisma: Tx,
  { source, request }: Pick<IdPagesQuery, 'source' | 'request'>,
  getMany: (ids: string[]) => Promise<(T | null)[]>,
): Promise<Page<T>> {
  const pages = await fetchIdPages(prisma, { parents: [''], source, order: 'newest', request })
  const page = pages.get('')!
  return { ...page, items: (await getMany(page.items)).filter((item) => item !== null) }
}

function statementOf({ parents, source, order, request }: IdPagesQuery): Prisma.Sql {
  const { after, before, size, fromEnd } = request
  const [later, earlier] = order === 'newest' ? [Prisma.raw('<'), Prisma.raw('>')] : [Prisma.raw('>'), Prisma.raw('<')]
  const direction = (order === 'newest') === fromEnd ? Prisma.raw('ASC') : Prisma.raw('DESC')
  const window = Prisma.sql`
    ${after === null ? Prisma.empty : Prisma.sql`AND id ${later} ${after}`}
    ${before === null ? Prisma.empty : Prisma.sql`AND id ${earlier} ${before}`}`
  const beyond = [
    ...(after === null
      ? []
      : [Prisma.sql`UNION ALL (SELECT id, -1 FROM (${source}) s WHERE NOT id ${later} ${after} LIMIT 1)`]),
    ...(before === null
      ? []
      : [Prisma.sql`UNION ALL (SELECT id, 1 FROM (${source}) s WHERE NOT id ${earlier} ${before} LIMIT 1)`]),
  ]
  return Prisma.sql`
    SELECT parent.id AS "parentId", found.id, found.side
    FROM unnest(${[...parents]}::text[]) AS parent(id), LATERAL (
      (SELECT id, 0 AS side FROM (${source}) s WHERE true ${window} ORDER BY id ${direction} LIMIT ${size + 1})
      ${Prisma.join([Prisma.empty, ...beyond], ' ')}
    ) found`
}

function pageOfRows(request: PageRequest, rows: Row[]): Page<string> {
  const ids = rows.filter(({ side }) => side === 0).map(({ id }) => id)
  const before = rows.some(({ side }) => side === -1)
  const after = rows.some(({ side }) => side === 1)
  const page = pageOf(request, ids, request.fromEnd ? after : before)
  return {
    ...page,
    hasPreviousPage: page.hasPreviousPage || before,
    hasNextPage: page.hasNextPage || after,
  }
}
