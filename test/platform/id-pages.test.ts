import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { Prisma } from '../../src/generated/prisma/client.ts'
import { newId } from '../../src/lib/ids.ts'
import type { PageRequest } from '../../src/lib/page.ts'
import { type Database, openDatabase } from '../../src/platform/db.ts'
import { fetchIdPages } from '../../src/platform/id-pages.ts'
import { createTestDatabase, hasPostgres, type TestDatabase } from '../support/postgres.ts'

describe.skipIf(!hasPostgres)('pages of ids', () => {
  let database: TestDatabase
  let db: Database
  /** The ids of the spaces of each entity, oldest first. */
  const children = new Map<string, string[]>()

  beforeAll(async () => {
    database = await createTestDatabase()
    db = await openDatabase({ url: database.url, dataDirectory: '' })
    for (const count of [0, 1, 6]) {
      const parent = newId('hum')
      const ids = Array.from({ length: count }, () => newId('spc')).sort()
      children.set(parent, ids)
      await db.prisma.entity.create({ data: { id: parent, kind: 'HUMAN', name: 'x' } })
      await db.prisma.space.createMany({ data: ids.map((id) => ({ id, name: 'x', routing: 'BROADCAST' })) })
      await db.prisma.membership.createMany({ data: ids.map((id) => ({ spaceId: id, entityId: parent })) })
    }
  })
  afterAll(async () => {
    await db.close()
    await database.drop()
  })

  const source = Prisma.sql`SELECT "spaceId" AS id FROM "Membership" WHERE "entityId" = parent.id`

  /** Applies the definition of the contract to a list in the order of the connection. */
  function expected(
    all: string[],
    { size, fromEnd, after, before }: PageRequest,
    isLater: (a: string, b: string) => boolean,
  ) {
    const window = all.filter(
      (id) => (after === null || isLater(id, after)) && (before === null || isLater(before, id)),
    )
    const items = fromEnd ? window.slice(-size) : window.slice(0, size)
    const [first, last] = [items[0], items.at(-1)]
    if (first !== undefined && last !== undefined) {
      return { items, hasPreviousPage: all.indexOf(first) > 0, hasNextPage: all.indexOf(last) < all.length - 1 }
    }
    return {
      items,
      hasPreviousPage: after !== null && all.some((id) => !isLater(id, after)),
      hasNextPage: before !== null && all.some((id) => !isLater(before, id)),
    }
  }

  test('have the requested order, with exact flags, for every parent at once', async () => {
    const cursors = [...children.values()].flat().concat(newId('spc'))
    const cursor = fc.option(fc.constantFrom(...cursors))
    const request = fc.record({
      size: fc.integer({ min: 1, max: 7 }),
      fromEnd: fc.boolean(),
      after: cursor,
      before: cursor,
    })
    const order = fc.constantFrom('newest' as const, 'oldest' as const)
    await fc.assert(
      fc.asyncProperty(request, order, async (request, order) => {
        const parents = [...children.keys()]
        const pages = await fetchIdPages(db.prisma, { parents, source, order, request })
        const isLater = (a: string, b: string) => (order === 'newest' ? a < b : a > b)
        for (const [parent, ids] of children) {
          const all = order === 'newest' ? ids.toReversed() : ids
          expect(pages.get(parent)).toEqual(expected(all, request, isLater))
        }
      }),
      { numRuns: 150 },
    )
  })

  test('need no statement if there are no parents', async () => {
    const request = { size: 1, fromEnd: false, after: null, before: null }
    expect(await fetchIdPages(db.prisma, { parents: [], source, order: 'newest', request })).toEqual(new Map())
  })
})
