import pg from 'pg'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { createCore } from '../../src/app/core.ts'
import { presenceOf, warnOfOthers } from '../../src/runs/presence.ts'
import { startApplication, type TestApplication } from '../support/application.ts'
import { hasPostgres } from '../support/postgres.ts'
import { until } from '../support/until.ts'

const SOMEBODY_ELSE = 7
/** The remaining time of a lease whose worker is dead, and that of a lease that was just renewed. */
const OVERDUE = "interval '5 seconds'"
const RENEWED = "interval '10 seconds'"

describe.skipIf(!hasPostgres)('an executing run', () => {
  let parley: TestApplication
  let lifecycle: ReturnType<typeof createCore>['lifecycle']
  let connections: pg.Client[] = []

  beforeEach(async () => {
    parley = await startApplication({ stack: 'postgres', worker: false })
    lifecycle = createCore(parley.app.platform).lifecycle
  })
  afterEach(async () => {
    await Promise.all(connections.map((one) => one.end().catch(() => {})))
    connections = []
    await parley?.close()
  })

  const db = () => parley.app.platform.db.prisma

  async function present(worker: number): Promise<pg.Client> {
    const connection = new pg.Client({ connectionString: parley.stores.settings.DATABASE_URL ?? '' })
    connection.on('error', () => {})
    connections.push(connection)
    await connection.connect()
    const { text, values } = presenceOf(worker)
    expect((await connection.query(text, values)).rows).toEqual([{ present: true }])
    return connection
  }

  async function gone(connection: pg.Client): Promise<void> {
    const { rows } = await connection.query('SELECT pg_backend_pid() AS pid')
    await connection.end()
    await until('its connection is closed', async () => !(await stands(rows[0].pid)))
  }

  async function stands(pid: number): Promise<boolean> {
    const rows = await db().$queryRaw<unknown[]>`SELECT 1 FROM pg_stat_activity WHERE pid = ${pid}`
    return rows.length > 0
  }

  /** Changes the settings so that no process seems to have restarted recently. */
  const settled = (connection: pg.Client) =>
    until('it has been connected for long enough', async () => {
      const sql =
        "SELECT backend_start < now() - interval '5 seconds' AS old FROM pg_stat_activity WHERE pid = pg_backend_pid()"
      return (await connection.query(sql)).rows[0].old
    })

  /** Returns the id of a run that this process has claimed. */
  async function executing(): Promise<string> {
    const { human, space } = await parley.room()
    const id = (await parley.send(human, space.id, 'Hello')).runs[0]?.id ?? ''
    expect((await lifecycle.claim(1)).claims.map(({ run }) => run.id)).toEqual([id])
    return id
  }

  /** Returns whether another worker may take over the run when this much of the lease is left. */
  const isTaken = async (id: string, left: string) => {
    await db().$executeRawUnsafe(`UPDATE "Run" SET "leaseUntil" = clock_timestamp() + ${left} WHERE id = $1`, id)
    await lifecycle.lapse(id)
    return (await parley.run(id)).claimableAt !== null
  }

  test('is announced to other processes of the database, which warn once if they do not share a Redis', async () => {
    const { platform } = parley.app
    const warn = vi.fn()
    const logger = Object.assign(Object.create(platform.logger), { warn })
    const config = { ...platform.config, redisUrl: null }
    await present(platform.worker)
    const watch = warnOfOthers({ ...platform, logger, config }, 20)
    const other = await present(SOMEBODY_ELSE)
    await until('it has warned', async () => warn.mock.calls.length > 0)
    await gone(other)
    await watch.close()
    expect(warn.mock.calls).toEqual([[expect.stringContaining('another process uses this database')]])
    await warnOfOthers({ ...platform, logger, config: { ...config, redisUrl: 'redis://h' } }, 20).close()
    expect(warn).toHaveBeenCalledOnce()
  })

  test('is taken over from a worker whose connection was lost, before its lease ends', async () => {
    const [own, other] = [await present(parley.app.platform.worker), await present(SOMEBODY_ELSE)]
    await settled(other)
    const id = await executing()
    expect(await isTaken(id, OVERDUE)).toBe(false)
    await gone(own)
    expect(await isTaken(id, OVERDUE)).toBe(true)
  })

  test('is not taken over from a worker without a connection that has renewed its lease recently', async () => {
    await settled(await present(SOMEBODY_ELSE))
    expect(await isTaken(await executing(), RENEWED)).toBe(false)
  })

  test('is not taken over while all workers have just lost their connections', async () => {
    const id = await executing()
    expect(await isTaken(id, OVERDUE)).toBe(false)
    const back = await present(SOMEBODY_ELSE)
    expect(await isTaken(id, OVERDUE)).toBe(false)
    await settled(back)
    expect(await isTaken(id, OVERDUE)).toBe(true)
  })
})

describe.skipIf(!hasPostgres)('a process that executes runs', () => {
  test('is present while it is alive, even before its first run, and again after a lost connection', async () => {
    const parley = await startApplication({ stack: 'postgres' })
    try {
      const { db, worker } = parley.app.platform
      const pidsOf = () => db.prisma.$queryRaw<{ pid: number }[]>`
        SELECT l.pid FROM pg_locks l JOIN pg_database d ON d.oid = l.database AND d.datname = current_database()
        WHERE l.locktype = 'advisory' AND l.objid = ${worker}::int8::oid`
      await until('it is present', async () => (await pidsOf()).length === 1)
      const [before] = await pidsOf()
      await db.prisma.$queryRaw`SELECT pg_terminate_backend(${before?.pid})`
      await until('it is present again', async () => {
        const [now] = await pidsOf()
        return now !== undefined && now.pid !== before?.pid
      })
    } finally {
      await parley.close()
    }
  })
})
