import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { Prisma } from '../../src/generated/prisma/client.ts'
import { createEmptyDatabase, DANISH, hasPostgres, type TestDatabase } from '../support/postgres.ts'
import { startTestServer, type TestServer } from '../support/served.ts'
import { openStage, type Stage } from '../support/stage.ts'
import { inboxIn, thinkingOn } from '../support/thinking.ts'

const DIGITS = [...'0123456789abcdef']
/** Ids in the order of their times, whose last digits are all pairs of digits. In Danish, `aa` comes after `ff`. */
const idsOf = (prefix: string, pairs: readonly string[]) =>
  pairs.map((pair) => `${prefix}_01990000${pair}007000800000000000000${pair[0]}`)
const ALL_PAIRS = DIGITS.flatMap((first) => DIGITS.map((second) => first + second))

describe.skipIf(!hasPostgres)('a database with the Danish collation', () => {
  let database: TestDatabase
  let parley: TestServer
  let stage: Stage

  beforeAll(async () => {
    database = await createEmptyDatabase({ clauses: DANISH })
    parley = await startTestServer({ stack: 'postgres', isFresh: true, settings: { DATABASE_URL: database.url } })
    stage = await openStage(parley)
  })
  afterAll(async () => {
    await parley?.close()
    await database?.drop()
  })

  test('sorts “aa” after “z” when it orders text itself', async () => {
    const [row] = await parley.app.platform.db.query<{ isDanish: boolean }>(Prisma.sql`SELECT 'aa' > 'z' AS "isDanish"`)
    expect(row).toEqual({ isDanish: true })
  })

  test('lists by creation time, page by page, in both directions', async () => {
    const ids = idsOf('hum', ALL_PAIRS)
    const { prisma } = parley.app.platform.db
    await prisma.entity.createMany({ data: ids.map((id) => ({ id, kind: 'HUMAN', name: id })) })
    const read = async (page: string) => {
      const found: string[] = []
      for (let cursor = ''; ; ) {
        const { edges, pageInfo } = await stage.ask(
          stage.admin,
          `{ humans(${page} ${cursor}) {
            edges { node { id } } pageInfo { hasNextPage hasPreviousPage startCursor endCursor } } }`,
        )
        const some: string[] = edges.map(({ node }: { node: { id: string } }) => node.id)
        found.push(...(page.startsWith('last') ? some.reverse() : some))
        const { hasNextPage, hasPreviousPage, startCursor, endCursor } = pageInfo
        if (page.startsWith('last') ? !hasPreviousPage : !hasNextPage) return found
        cursor = page.startsWith('last') ? `before: "${startCursor}"` : `after: "${endCursor}"`
      }
    }
    expect(await read('first: 100')).toEqual(ids.toReversed())
    expect(await read('last: 100')).toEqual(ids)
  })

  test('shows the events of an inbox to a persistent agent in the order in which they arrived', async () => {
    const { prisma } = parley.app.platform.db
    const thinking = thinkingOn(parley)
    const agent = await thinking.bot('Ada')
    const pause = (paused: boolean) => parley.app.domain.agents.update(parley.admin, { id: agent.id, paused })
    await pause(true)
    const pairs = ALL_PAIRS.filter((pair) => /[9af]/.test(pair[0] ?? '')).toReversed()
    await prisma.inboxEvent.createMany({
      data: idsOf('inb', pairs).map((id, index) => ({
        id,
        agentId: agent.id,
        type: 'SERVICE',
        dedupKey: id,
        rootId: id.replace('inb', 'trg'),
        depth: 0,
        payload: { serviceId: null, name: 'watch', payload: pairs[index] },
      })),
    })
    parley.models.script(() => [{ text: 'Read.' }])
    const listed = await stage.ask(
      stage.admin,
      `query ($id: ID!) { agent(id: $id) { internals { inbox(first: 100) { edges { node { id } } } } } }`,
      { id: agent.id },
    )
    const waiting = listed.internals.inbox.edges.map(({ node }: { node: { id: string } }) => node.id)
    expect(waiting).toEqual(idsOf('inb', pairs.toReversed()))
    await pause(false)
    await thinking.rest(agent)
    const shown = parley.models.requests.flatMap((request) =>
      [...inboxIn(request).matchAll(/SERVICE watch\] "(..)"/g)].map(([, pair]) => pair),
    )
    expect(shown).toEqual(pairs.toReversed())
  })

  test('has no id column that the database orders by its collation', async () => {
    const columns = await parley.app.platform.db.query<{ name: string }>(Prisma.sql`
      SELECT format('%I.%I', c.relname, a.attname) AS name
      FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace
      WHERE n.nspname = 'public' AND c.relkind IN ('r', 'p') AND a.atttypid IN ('text'::regtype, 'text[]'::regtype)
        AND a.attname ~ '^(id|hash|[a-zA-Z]+Ids?|dedupKey|runPostKey|idempotencyKey|places|askers|forgets)$'
        AND a.attnum > 0 AND NOT a.attisdropped
        AND a.attcollation <> (SELECT oid FROM pg_collation WHERE collname = 'C' AND collnamespace = 'pg_catalog'::regnamespace)
      ORDER BY 1`)
    expect(columns, 'give these columns COLLATE "C" in their migration').toEqual([])
  })
})
