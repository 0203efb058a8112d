import pg from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { Prisma } from '../../src/generated/prisma/client.ts'
import { startApplication, type TestApplication } from '../support/application.ts'
import { hasPostgres } from '../support/postgres.ts'
import { until } from '../support/until.ts'

const CONNECTIONS = 5

describe.skipIf(!hasPostgres)(`a process of ${CONNECTIONS} connections`, () => {
  let parley: TestApplication
  beforeAll(async () => {
    const settings = { PARLEY_DATABASE_CONNECTIONS: String(CONNECTIONS) }
    parley = await startApplication({ stack: 'postgres', worker: false, settings })
  })
  afterAll(() => parley?.close())

  test('opens so many, and no more', async () => {
    const { db } = parley.app.platform
    const asleep = Array.from(
      { length: 12 },
      () => db.prisma.$queryRaw<{ count: number }[]>`
    SELECT count(*)::int FROM pg_sleep(0.3), pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend'`,
    )
    const counts = (await Promise.all(asleep)).map(([row]) => row?.count ?? 0)
    expect(Math.max(...counts)).toBe(CONNECTIONS)
  })

  test('is ready while a burst has taken all of them and more wait, but not where none comes back', async () => {
    const { db } = parley.app.platform
    const asleep = (seconds: number) => db.query(Prisma.sql`SELECT FROM pg_sleep(${seconds})`)
    const beside = new pg.Client({ connectionString: parley.stores.settings.DATABASE_URL ?? '' })
    await beside.connect()
    const sleeping = async () =>
      (await beside.query(`SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'`))
        .rowCount
    try {
      // In all longer than readiness waits for an answer.
      const burst = Array.from({ length: 30 }, () => asleep(0.6))
      expect(await db.healthy()).toBe(true)
      await Promise.all(burst)
      const held = Array.from({ length: CONNECTIONS }, () => asleep(4))
      await until('all are asleep', async () => (await sleeping()) === CONNECTIONS)
      expect(await db.healthy()).toBe(false)
      await Promise.all(held)
      expect(await db.healthy()).toBe(true)
    } finally {
      await beside.end()
    }
  })
})
