import { createServer, type Server } from 'node:net'
import { PrismaPg } from '@prisma/adapter-pg'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { PrismaClient } from '../../src/generated/prisma/client.ts'
import { sleep } from '../../src/lib/async.ts'
import { isOutage, isUniqueViolation, isWriteConflict, sqlStateOf } from '../../src/platform/database-errors.ts'
import { type Database, openDatabase } from '../../src/platform/db.ts'
import { createTestDataDirectory } from '../support/pglite.ts'
import { createTestDatabase, hasPostgres } from '../support/postgres.ts'

/** Returns the error with which a promise rejects. */
const fault = (work: PromiseLike<unknown>): Promise<unknown> =>
  Promise.resolve(work).then(
    () => null,
    (error: unknown) => error,
  )

const DATABASES = (['postgres', 'pglite'] as const).filter((kind) => kind === 'pglite' || hasPostgres)

describe.each(DATABASES)('an error code from %s', (kind) => {
  let db: Database
  let remove: () => Promise<void>

  beforeAll(async () => {
    if (kind === 'postgres') {
      const { url, drop } = await createTestDatabase()
      db = await openDatabase({ url, dataDirectory: '' })
      remove = drop
    } else {
      const directory = await createTestDataDirectory()
      db = await openDatabase({ url: null, dataDirectory: directory.path })
      remove = directory.remove
    }
  })
  afterAll(async () => {
    await db?.close()
    await remove?.()
  })

  const raise = (code: string) =>
    `DO $$ BEGIN RAISE EXCEPTION 'database system is shut' USING ERRCODE = '${code}'; END $$`

  test.each(['08006', '08P01', '53100', '53300', '57P01', '57P03', '25P03'])('%s is an outage', async (code) => {
    const error = await fault(db.prisma.$executeRawUnsafe(raise(code)))
    expect(sqlStateOf(error)).toBe(code)
    expect(isOutage(error)).toBe(true)
    expect(isOutage(await fault(db.transaction((tx) => tx.$executeRawUnsafe(raise(code)))))).toBe(true)
  })

  test.each(['22003', '22021', '23505', '42703', '57014', 'P0001', '3D000', '40001'])(
    '%s does not count as an outage, with any message',
    async (code) => {
      const error = await fault(db.prisma.$executeRawUnsafe(raise(code)))
      expect(sqlStateOf(error)).toBe(code)
      expect(isOutage(error)).toBe(false)
      expect(isWriteConflict(error)).toBe(code === '40001')
    },
  )

  test('a statement that PostgreSQL cannot execute does not count as an outage', async () => {
    const { prisma } = db
    const errors = [
      await fault(prisma.$queryRaw`SELECT 1 OFFSET ${1e300}`),
      await fault(prisma.$queryRaw`SELECT ${'{"a":"\\u0000"}'}::jsonb`),
      await fault(prisma.$queryRaw`SELECT ${'a\0'}::text`),
      await fault(prisma.run.findFirst({ where: { id: 'a\0' } })),
      await fault(prisma.run.findFirst({ where: { attempt: 1e300 } })),
      await fault(prisma.run.update({ where: { id: 'none' }, data: { attempt: 1 } })),
    ]
    expect(errors.map((error) => [error !== null, isOutage(error)])).toEqual(errors.map(() => [true, false]))
  })

  test('a duplicate key is recognised, from Prisma and from raw statements', async () => {
    const row = { id: 'plf_1', planId: 'pln_1', slot: new Date(0), rootId: 'r', result: 'RUN' as const }
    await db.prisma.planFiring.create({ data: row })
    const error = await fault(db.prisma.planFiring.create({ data: row }))
    const raw = await fault(
      db.prisma
        .$executeRaw`INSERT INTO "PlanFiring" (id, "planId", slot, "rootId", result) VALUES ('plf_2', 'pln_1', ${row.slot}, 'r', 'RUN')`,
    )
    expect([isUniqueViolation(error), isUniqueViolation(raw), isOutage(error), isOutage(raw)]).toEqual([
      true,
      true,
      false,
      false,
    ])
    expect(isUniqueViolation(await fault(db.prisma.$queryRaw`SELECT nothing`))).toBe(false)
  })

  test('a transaction that gets no connection, or times out, counts as an outage', async () => {
    const late = db.prisma.$transaction(
      async (tx) => {
        await tx.$queryRaw`SELECT 1`
        await sleep(100)
        await tx.$queryRaw`SELECT 1`
      },
      { timeout: 50 },
    )
    expect(isOutage(await fault(late))).toBe(true)
  })
})

describe.skipIf(!hasPostgres)('a PostgreSQL that stops', () => {
  test('counts as an outage for the current statement, and for the next one of its transaction', async () => {
    const { url, drop } = await createTestDatabase()
    const db = await openDatabase({ url, dataDirectory: '' })
    const other = new pg.Client({ connectionString: url })
    await other.connect()
    const end = () =>
      other.query(
        'SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()',
      )
    const between = db.prisma.$transaction(async (tx) => {
      const [own] = await tx.$queryRaw<{ pid: number }[]>`SELECT pg_backend_pid() AS pid`
      await end()
      for (;;) {
        const { rows } = await other.query('SELECT 1 FROM pg_stat_activity WHERE pid = $1', [own?.pid])
        if (rows.length === 0) break
      }
      await tx.$queryRaw`SELECT 1`
    })
    expect(isOutage(await fault(between))).toBe(true)
    const asleep = fault(db.prisma.$queryRaw`SELECT 'asleep' FROM pg_sleep(60)`)
    for (let isAsleep = false; !isAsleep; ) {
      const { rows } = await other.query("SELECT 1 FROM pg_stat_activity WHERE query LIKE 'SELECT ''asleep%'")
      isAsleep = rows.length > 0
    }
    await end()
    expect(isOutage(await asleep)).toBe(true)
    await other.end()
    await db.close()
    expect(isOutage(await fault(db.prisma.$queryRaw`SELECT 1`))).toBe(true)
    await drop()
  })
})

describe('a server that does not exist', () => {
  const servers: Server[] = []
  afterAll(() => {
    for (const server of servers) server.close()
  })

  async function portOf(server: Server): Promise<number> {
    servers.push(server)
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    return (server.address() as { port: number }).port
  }

  test.each([
    ['refuses', async () => 1],
    ['breaks off', () => portOf(createServer((socket) => socket.destroy()))],
    ['never answers', () => portOf(createServer(() => {}))],
  ])('or %s counts as an outage', async (_, open) => {
    const connectionString = `postgresql://postgres@127.0.0.1:${await open()}/none`
    const prisma = new PrismaClient({ adapter: new PrismaPg({ connectionString, connectionTimeoutMillis: 200 }) })
    const errors = [
      await fault(prisma.$queryRaw`SELECT 1`),
      await fault(prisma.run.findFirst()),
      await fault(prisma.$transaction((tx) => tx.$queryRaw`SELECT 1`)),
    ]
    expect(errors.map(isOutage)).toEqual([true, true, true])
    await prisma.$disconnect()
  })

  test('counts as an outage for a name with two addresses too', async () => {
    const client = new pg.Client({ host: 'localhost', port: 1, user: 'postgres' })
    expect(isOutage(await fault(client.connect()))).toBe(true)
  })
})

test('an error of another component does not count as an outage', () => {
  expect([null, 'a text', { code: '57P01' }, new Error('a bug'), new TypeError('fetch failed')].map(isOutage)).toEqual(
    Array.from({ length: 5 }, () => false),
  )
})
