import path from 'node:path'
import { PGlite } from '@electric-sql/pglite'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { Prisma } from '../../src/generated/prisma/client.ts'
import { sqlStateOf } from '../../src/platform/database-errors.ts'
import { createEmbeddedQueries } from '../../src/platform/named-statements.ts'
import { isOneOf } from '../../src/platform/one-of.ts'
import { createTestDataDirectory } from '../support/pglite.ts'

describe('a statement of the embedded database', () => {
  let directory: Awaited<ReturnType<typeof createTestDataDirectory>>
  let pglite: PGlite
  let query: ReturnType<typeof createEmbeddedQueries>

  beforeAll(async () => {
    directory = await createTestDataDirectory()
    pglite = await PGlite.create(path.join(directory.path, 'database'))
    await pglite.exec('CREATE TABLE said (id int PRIMARY KEY, text text, tags text[], at timestamptz, more jsonb)')
    query = createEmbeddedQueries(pglite)
  })
  afterAll(() => directory?.remove())

  test('accepts and returns every type that the statements of Parley use', async () => {
    const at = new Date('2026-11-23T12:00:00.123Z')
    const [row] = await query(
      'INSERT INTO said VALUES ($1, $2, $3, $4, $5) RETURNING *, $6::boolean AS yes, $7::float8 AS share',
      [1, 'Grüße, {"a"}', ['a,b', '"c"', ''], at, { deep: [1, null, 'x'] }, true, 0.25],
    )
    expect(row).toEqual({
      id: 1,
      text: 'Grüße, {"a"}',
      tags: ['a,b', '"c"', ''],
      at,
      more: { deep: [1, null, 'x'] },
      yes: true,
      share: 0.25,
    })
    expect(await query('SELECT $1::text AS nothing, $2::text[] AS none', [null, []])).toEqual([
      { nothing: null, none: [] },
    ])
    expect(await query('DELETE FROM said', [])).toEqual([])
  })

  test('is planned once, even if it runs often', async () => {
    const text = 'SELECT count(*)::int AS count FROM said WHERE id > $1'
    for (let id = 0; id < 20; id++) expect(await query(text, [id])).toEqual([{ count: 0 }])
    const plans = 'SELECT generic_plans::int, custom_plans::int FROM pg_prepared_statements WHERE statement = $1'
    expect(await query(plans, [text])).toEqual([{ generic_plans: 15, custom_plans: 5 }])
  })

  test('is planned once with a short list of any length', async () => {
    const laterThan = (ids: string[]) =>
      Prisma.sql`SELECT (SELECT count(*) FROM said o WHERE o.id > s.id)::int AS later FROM said s WHERE ${isOneOf(Prisma.sql`s.text`, ids)}`
    for (let n = 0; n < 20; n++) {
      const { text, values } = laterThan(['a', 'b', 'c', 'd'].slice(0, 2 + (n % 3)))
      expect(await query(text, values)).toEqual([])
    }
    const plans = 'SELECT generic_plans::int, custom_plans::int FROM pg_prepared_statements WHERE statement = $1'
    expect(await query(plans, [laterThan(['a', 'b']).text])).toEqual([{ generic_plans: 15, custom_plans: 5 }])
  })

  test('fails with its SQLSTATE, and does not affect later statements', async () => {
    const insert = 'INSERT INTO said (id) VALUES ($1) RETURNING id'
    await query(insert, [7])
    for (const [text, values, state] of [
      [insert, [7], '23505'],
      ['SELEC $1', ['x'], '42601'],
      ['SELECT 1 / $1::int', [0], '22012'],
      [insert, ['seven'], '22P02'],
    ] as const) {
      const error = await query(text, values).catch((thrown: unknown) => thrown)
      expect([error instanceof Error, sqlStateOf(error)]).toEqual([true, state])
      expect(await query('SELECT id FROM said WHERE id = $1', [7])).toEqual([{ id: 7 }])
    }
    expect(await query(insert, [8])).toEqual([{ id: 8 }])
  })

  test('waits for the end of a transaction, and is not part of it', async () => {
    const order: string[] = []
    const { promise: isAsked, resolve: ask } = Promise.withResolvers<void>()
    const transaction = pglite.transaction(async (tx) => {
      await tx.query('INSERT INTO said (id) VALUES (100)')
      ask()
      await tx.query('INSERT INTO said (id) VALUES (101)')
      order.push('transaction')
      await tx.rollback()
    })
    await isAsked
    const [row] = await query<{ count: number }>('SELECT count(*)::int AS count FROM said WHERE id >= $1', [100])
    order.push('statement')
    await transaction
    expect([order, row]).toEqual([['transaction', 'statement'], { count: 0 }])
  })

  test('returns the right result to each of many concurrent callers', async () => {
    const asked = Array.from({ length: 200 }, (_, number) =>
      query<{ number: number }>(`SELECT $1::int AS number /* ${number % 7} */`, [number]),
    )
    expect((await Promise.all(asked)).map(([row]) => row?.number)).toEqual(asked.map((_, number) => number))
  })

  test('still works with more distinct statements than the cache holds', async () => {
    for (let n = 0; n < 600; n++) expect(await query(`SELECT $1::int AS n${n}`, [n])).toEqual([{ [`n${n}`]: n }])
    const [{ kept } = { kept: 0 }] = await query<{ kept: number }>(
      'SELECT count(*)::int AS kept FROM pg_prepared_statements',
      [],
    )
    expect(kept).toBeLessThanOrEqual(500)
  })

  test('fails with "is closed" after the end', async () => {
    await pglite.close()
    await expect(query('SELECT 1', [])).rejects.toThrow('PGlite is closed')
  })
})
