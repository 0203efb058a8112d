import pg from 'pg'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { Prisma } from '../../src/generated/prisma/client.ts'
import { openJobs } from '../../src/jobs/jobs.ts'
import { type Database, openDatabase } from '../../src/platform/db.ts'
import { openOwnConnection } from '../../src/platform/own-connection.ts'
import { createEmptyDatabase, createTestDatabase, hasPostgres, type TestDatabase } from '../support/postgres.ts'
import { startTestServer } from '../support/served.ts'
import { openThrowawayPostgres } from '../support/throwaway-postgres.ts'
import { until } from '../support/until.ts'

const SHOWN = Prisma.sql`SELECT current_setting('TimeZone') AS zone, current_setting('DateStyle') AS style,
  current_setting('search_path') AS path, current_setting('statement_timeout') AS timeout`

describe.skipIf(!hasPostgres)('connections to a database with its own settings', () => {
  let database: TestDatabase
  const closing: (() => Promise<unknown>)[] = []

  beforeAll(async () => {
    database = await createEmptyDatabase({
      settings: { timezone: 'Asia/Kolkata', datestyle: 'SQL, DMY', statement_timeout: '1h', extra_float_digits: '-15' },
    })
    await (await openDatabase({ url: database.url, dataDirectory: '' })).close()
  })
  afterEach(async () => {
    for (const close of closing.splice(0).reverse()) await close()
  })
  afterAll(() => database?.drop())

  async function open(url: string): Promise<Database> {
    const db = await openDatabase({ url, dataDirectory: '' })
    closing.push(() => db.close())
    return db
  }

  test('have the settings that the code relies on, whether they belong to the pool, leases or presence', async () => {
    const db = await open(database.url)
    const own = openOwnConnection({ db, logger: undefined as never })
    closing.push(() => own.close())
    const session = db.beside?.createSession?.({})
    await session?.connect()
    closing.push(async () => session?.end())
    const rows = [
      await db.query(SHOWN),
      await db.prisma.$queryRaw(SHOWN),
      await own.query(SHOWN),
      (await session?.query(SHOWN.text))?.rows,
    ]
    const expected = { zone: 'UTC', style: 'ISO, MDY', path: '"pgboss", "public"', timeout: '30s' }
    expect(rows).toEqual([[expected], [expected], [{ ...expected, timeout: '3s' }], [expected]])
    const at = new Date('2026-07-01T12:34:56.789Z')
    const { id } = await db.prisma.entity.create({ data: { id: 'hum_at', kind: 'HUMAN', name: 'x', createdAt: at } })
    const [written] = await db.query<{ at: Date; nanos: number }>(
      Prisma.sql`SELECT "createdAt" AS at, ${0.1 + 0.2}::float8 AS nanos FROM "Entity" WHERE id = ${id}`,
    )
    expect(written).toEqual({ at, nanos: 0.1 + 0.2 })
    expect((await db.prisma.entity.findUniqueOrThrow({ where: { id } })).createdAt).toEqual(at)
  })

  test('add the options of the URL, except for what the code relies on', async () => {
    const options = encodeURIComponent('-c statement_timeout=7s -c timezone=Asia/Tokyo -c parley.mood=a\\ b')
    const db = await open(`${database.url}?options=${options}`)
    const [row] = await db.query<object>(Prisma.sql`SELECT current_setting('TimeZone') AS zone,
      current_setting('statement_timeout') AS timeout, current_setting('parley.mood') AS mood`)
    expect(row).toEqual({ zone: 'UTC', timeout: '7s', mood: 'a b' })
  })
})

describe.skipIf(!hasPostgres)('two installations in one database', () => {
  let database: TestDatabase
  const closing: (() => Promise<unknown>)[] = []
  beforeAll(async () => {
    database = await createEmptyDatabase()
    // The tables of another application, with names that the job queue also uses.
    await execute(database.url, 'CREATE TABLE public.job (x int)', 'CREATE TABLE public.queue (x int)')
  })
  afterAll(async () => {
    for (const close of closing.splice(0).reverse()) await close()
    await database?.drop()
  })

  async function installation(parameters: string) {
    const db = await openDatabase({ url: `${database.url}${parameters}`, dataDirectory: '' })
    closing.push(() => db.close())
    const jobs = await openJobs(db, { supervise: false, onError: () => {} })
    closing.push(() => jobs.close())
    return db
  }

  test('have separate tables, types and jobs, in the schemas that their URLs name', async () => {
    const [first, second, third] = [
      await installation('?schema=staging'),
      await installation('?schema=Production-2'),
      await installation(''),
    ]
    for (const [index, db] of [first, second, third].entries()) {
      const name = `of ${index}`
      await db.prisma.entity.create({ data: { id: `hum_${index}`, kind: 'HUMAN', name } })
      await db.transaction((tx) => tx.entity.create({ data: { id: `hum_${index}b`, kind: 'HUMAN', name } }))
      expect(await db.query(Prisma.sql`SELECT DISTINCT name FROM "Entity"`)).toEqual([{ name }])
      expect((await db.prisma.entity.findMany()).map((one) => one.name)).toEqual([name, name])
      await db.query(Prisma.sql`INSERT INTO job (name, data) VALUES ('fire-plan', ${JSON.stringify({ name })}::jsonb)`)
      expect(await db.query(Prisma.sql`SELECT data->>'name' AS name FROM job`)).toEqual([{ name }])
    }
    const schemas = await third.query<{ schema: string; count: number }>(Prisma.sql`
      SELECT schemaname AS schema, count(*)::int AS count FROM pg_tables
      WHERE schemaname NOT IN ('pg_catalog', 'information_schema') GROUP BY 1 ORDER BY 1`)
    const ours = schemas.find(({ schema }) => schema === 'staging')?.count ?? 0
    expect(ours).toBeGreaterThan(20)
    expect(schemas.map(({ schema }) => schema).toSorted()).toEqual(
      ['Production-2', 'pgboss', 'pgboss_Production-2', 'pgboss_staging', 'public', 'staging'].toSorted(),
    )
    expect(schemas.find(({ schema }) => schema === 'public')?.count).toBe(ours + 2)
  })
})

describe.skipIf(!hasPostgres)('readiness', () => {
  test('needs a writable database', async ({ skip }) => {
    const postgres = await openThrowawayPostgres()
    if (postgres === null) return skip()
    const parley = await startTestServer({
      stack: 'postgres',
      isFresh: true,
      worker: false,
      settings: { DATABASE_URL: postgres.url },
    })
    try {
      const ready = async () => {
        const response = await fetch(`${parley.origin}/health/ready`)
        return { status: response.status, ...((await response.json()) as { reason?: string }) }
      }
      expect(await ready()).toEqual({ status: 'ok', database: true, realtime: true })
      await postgres.stop('fast')
      await postgres.startAsStandby()
      const refused = await until('it is not ready', async () => {
        const answer = await ready()
        return answer.reason === 'The database is read-only.' && answer
      })
      expect(refused).toMatchObject({ status: 'unavailable', database: false, realtime: true })
      expect((await fetch(`${parley.origin}/health/ready`)).status).toBe(503)
      const { status } = await fetch(`${parley.origin}/health/live`)
      expect(status).toBe(200)
    } finally {
      await parley.close()
      await postgres.dispose()
    }
  })

  test('writes at most once a second, even if it is requested often', async () => {
    const database = await createTestDatabase()
    const db = await openDatabase({ url: database.url, dataDirectory: '' })
    try {
      const written = async () => (await db.prisma.readinessCheck.findMany()).map(({ at }) => at.getTime())
      const faults = await Promise.all(Array.from({ length: 50 }, () => db.fault()))
      expect(new Set(faults)).toEqual(new Set([null]))
      const first = await written()
      expect(await db.fault()).toBeNull()
      expect(await written()).toEqual(first)
      await until('it writes again', async () => (await db.fault()) === null && (await written())[0] !== first[0])
    } finally {
      await db.close()
      await database.drop()
    }
  })
})

async function execute(url: string, ...statements: string[]): Promise<void> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    for (const statement of statements) await client.query(statement)
  } finally {
    await client.end()
  }
}
