import pg from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startApplication, type TestApplication } from '../support/application.ts'
import { hasPostgres } from '../support/postgres.ts'
import { until } from '../support/until.ts'

/** The number of connections in the pool of an application. */
const POOL = 8

describe.skipIf(!hasPostgres)('the lease of a run', () => {
  let parley: TestApplication
  let direct: pg.Client

  beforeAll(async () => {
    parley = await startApplication({
      stack: 'postgres',
      settings: { PARLEY_DATABASE_CONNECTIONS: String(POOL) },
    })
    direct = new pg.Client({ connectionString: parley.stores.settings.DATABASE_URL ?? '' })
    await direct.connect()
  })
  afterAll(async () => {
    await direct?.end()
    await parley?.close()
  })

  test('is renewed even if other work uses every connection of the pool', async () => {
    const { prisma } = parley.app.platform.db
    parley.models.script(() => [{ hang: true }])
    const { human, space } = await parley.room()
    const { runs } = await parley.send(human, space.id, 'Hello')
    const runId = runs[0]?.id ?? ''
    await parley.models.request(() => true)
    const goOn = Promise.withResolvers<void>()
    const holding = Array.from({ length: POOL }, () =>
      prisma.$transaction(
        async (tx) => {
          await tx.$queryRaw`SELECT 'held'`
          await goOn.promise
        },
        { maxWait: 20_000, timeout: 25_000 },
      ),
    )
    await until('all connections are in use', async () => {
      const { rows } = await direct.query(
        `SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND state = 'idle in transaction'`,
      )
      return rows.length === POOL
    })
    await direct.query(`UPDATE "Run" SET "leaseUntil" = clock_timestamp() + interval '2 seconds' WHERE id = $1`, [
      runId,
    ])
    const isRenewed = async () => {
      const { rows } = await direct.query(
        `SELECT "leaseUntil" > clock_timestamp() + interval '5 seconds' AS renewed, "claimableAt" FROM "Run" WHERE id = $1`,
        [runId],
      )
      return rows[0]?.renewed === true && rows[0].claimableAt === null
    }
    await until('the lease is renewed', isRenewed, { timeoutMs: 8000 })
    goOn.resolve()
    await Promise.all(holding)
    await parley.app.domain.control.stopRun(human, { runId, cascade: false })
    expect(await parley.run(runId)).toMatchObject({ status: 'CANCELED', attempt: 1 })
  })
})
