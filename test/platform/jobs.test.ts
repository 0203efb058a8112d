import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Database, openDatabase } from '../../src/platform/db.ts'
import { type ClaimedJob, type Jobs, openJobs } from '../../src/platform/jobs.ts'
import { createTestDatabase, hasPostgres, type TestDatabase } from '../support/postgres.ts'
import { until } from '../support/until.ts'

describe.skipIf(!hasPostgres)('a job', () => {
  let database: TestDatabase
  let db: Database
  let jobs: Jobs

  beforeAll(async () => {
    database = await createTestDatabase()
    db = await openDatabase({ url: database.url, dataDirectory: '', poolSize: 5 })
    jobs = await openJobs(db, { supervise: false, onError: (error) => console.error(error) })
  })
  afterAll(async () => {
    await jobs?.close()
    await db?.close()
    await database?.drop()
  })

  const enqueue = (planId: string) =>
    db.transaction((tx) => jobs.enqueue(tx, [{ wakeUp: { type: 'plan', planId }, at: new Date() }]))
  const delivery = async (planId: string): Promise<ClaimedJob> => {
    const [job] = await until(`${planId} is delivered`, async () => {
      const claimed = await jobs.claim(10)
      return claimed.length > 0 && claimed
    })
    expect(job?.wakeUp).toEqual({ type: 'plan', planId })
    return job as ClaimedJob
  }
  const rowOf = async (planId: string) => {
    const [row] = await db.prisma.$queryRaw<{ state: string; pause: number }[]>`
      SELECT state::text, extract(epoch FROM start_after - now())::float8 AS pause
      FROM pgboss.job WHERE data->>'planId' = ${planId}`
    return row
  }
  /** As if the pause after a failure were over. */
  const hurry = (planId: string) =>
    db.prisma.$executeRaw`UPDATE pgboss.job SET start_after = now() WHERE data->>'planId' = ${planId}`

  test('that was delivered again is settled by its new delivery alone, whatever a process that slept says of the old one', async () => {
    await enqueue('slept')
    const old = await delivery('slept')
    await jobs.release(old)
    await hurry('slept')
    const fresh = await delivery('slept')
    await jobs.complete([old])
    expect(await rowOf('slept')).toMatchObject({ state: 'active' })
    await jobs.release(old)
    expect(await rowOf('slept')).toMatchObject({ state: 'active' })
    await jobs.complete([fresh])
    expect(await rowOf('slept')).toMatchObject({ state: 'completed' })
  })

  test('that fails is delivered again after a pause, longer each time', async () => {
    await enqueue('fails')
    const pauses: number[] = []
    for (let n = 0; n < 5; n++) {
      await jobs.release(await delivery('fails'))
      pauses.push((await rowOf('fails'))?.pause ?? 0)
      await hurry('fails')
    }
    expect(pauses[0]).toBeGreaterThan(0)
    expect(pauses[4]).toBeGreaterThan(4 * (pauses[0] ?? 0))
  })
})
