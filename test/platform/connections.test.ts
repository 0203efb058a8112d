import pg from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { Prisma } from '../../src/generated/prisma/client.ts'
import { forRequester } from '../../src/lib/requester-context.ts'
import { startApplication, type TestApplication } from '../support/application.ts'
import { hasPostgres } from '../support/postgres.ts'
import { until } from '../support/until.ts'

const CONNECTIONS = 5

describe.skipIf(!hasPostgres)(`a process with ${CONNECTIONS} connections`, () => {
  let parley: TestApplication
  beforeAll(async () => {
    const settings = { PARLEY_DATABASE_CONNECTIONS: String(CONNECTIONS) }
    parley = await startApplication({ stack: 'postgres', worker: false, settings })
  })
  afterAll(() => parley?.close())

  test('opens exactly that many', async () => {
    const { db } = parley.app.platform
    const asleep = Array.from(
      { length: 12 },
      () => db.prisma.$queryRaw<{ count: number }[]>`
    SELECT count(*)::int FROM pg_sleep(0.3), pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend'`,
    )
    const counts = (await Promise.all(asleep)).map(([row]) => row?.count ?? 0)
    expect(Math.max(...counts)).toBe(CONNECTIONS)
  })

  test('lets requesters use two while the event loop is busy, and all of them afterwards', async () => {
    const { db } = parley.app.platform
    const running = { now: 0, most: 0 }
    const transaction = () =>
      db.prisma.$transaction(async (tx) => {
        running.now += 1
        running.most = Math.max(running.most, running.now)
        await tx.$queryRaw`SELECT 1 FROM pg_sleep(0.02)`
        running.now -= 1
      })
    const statement = () => forRequester('hum_1', transaction)
    /** Returns the maximum number of transactions that ran at the same time. */
    const mostOf = async (): Promise<number> => {
      running.most = 0
      await Promise.all(Array.from({ length: 20 }, statement))
      return running.most
    }
    let isBusy = true
    const burn = () => {
      const endsAt = performance.now() + 10
      while (performance.now() < endsAt) Math.sqrt(endsAt)
      if (isBusy) setImmediate(burn)
    }
    burn()
    await until('few run', async () => (await mostOf()) <= 2)
    isBusy = false
    await until('all connections are used', async () => (await mostOf()) === CONNECTIONS)
  })

  test('serves a requester before the queued statements of another', async () => {
    const { db } = parley.app.platform
    const asleep = (seconds: number) => db.query(Prisma.sql`SELECT FROM pg_sleep(${seconds})`)
    let served = 0
    const burst = Array.from({ length: 40 }, () =>
      forRequester('hostile', () => asleep(0.1)).then(() => {
        served += 1
      }),
    )
    await Promise.race(burst)
    await forRequester('honest', () => asleep(0))
    expect(served).toBeLessThan(20)
    await Promise.all(burst)
  })

  test('is ready during a burst that uses all connections, but not if none is returned', async () => {
    const { db } = parley.app.platform
    const asleep = (seconds: number) => db.query(Prisma.sql`SELECT FROM pg_sleep(${seconds})`)
    const beside = new pg.Client({ connectionString: parley.stores.settings.DATABASE_URL ?? '' })
    await beside.connect()
    const sleeping = async () =>
      (await beside.query(`SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'`))
        .rowCount
    try {
      // In total, the statements take longer than the readiness check waits.
      const burst = Array.from({ length: 30 }, () => asleep(0.6))
      expect(await db.fault()).toBeNull()
      await Promise.all(burst)
      const held = Array.from({ length: CONNECTIONS }, () => asleep(4))
      await until('all connections sleep', async () => (await sleeping()) === CONNECTIONS)
      expect(await db.fault()).toBe('The database does not respond.')
      await Promise.all(held)
      expect(await db.fault()).toBeNull()
    } finally {
      await beside.end()
    }
  })
})
