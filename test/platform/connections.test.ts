import { expect, test } from 'vitest'
import { startApplication } from '../support/application.ts'
import { hasPostgres } from '../support/postgres.ts'

test.skipIf(!hasPostgres)('a process opens as many connections as it is told, and no more', async () => {
  const settings = { PARLEY_DATABASE_CONNECTIONS: '5' }
  const parley = await startApplication({ stack: 'postgres', worker: false, settings })
  const { db } = parley.app.platform
  const asleep = Array.from(
    { length: 12 },
    () => db.prisma.$queryRaw<{ count: number }[]>`
    SELECT count(*)::int FROM pg_sleep(0.3), pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend'`,
  )
  const counts = (await Promise.all(asleep)).map(([row]) => row?.count ?? 0)
  await parley.close()
  expect(Math.max(...counts)).toBe(5)
})
