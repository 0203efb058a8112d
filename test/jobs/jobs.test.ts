import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { Prisma } from '../../src/generated/prisma/client.ts'
import { enqueueSql } from '../../src/jobs/enqueue-sql.ts'
import { type ClaimedJob, type Jobs, openJobs } from '../../src/jobs/jobs.ts'
import { FAILED_JOBS } from '../../src/jobs/queue-options.ts'
import { DELETE_OLD_ROWS, FIRE_PLAN, SEND_NOTICE } from '../../src/jobs/queues.ts'
import { type Database, openDatabase } from '../../src/platform/db.ts'
import { DATABASES } from '../support/domain.ts'
import { createTestDataDirectory } from '../support/pglite.ts'
import { createTestDatabase } from '../support/postgres.ts'

const openers = {
  async postgres() {
    const { url, drop } = await createTestDatabase()
    return { db: await openDatabase({ url, dataDirectory: '', poolSize: 5 }), drop }
  },
  async pglite() {
    const { path, remove } = await createTestDataDirectory()
    return { db: await openDatabase({ url: null, dataDirectory: path }), drop: remove }
  },
}

describe.each(DATABASES)('a job on %s', (database) => {
  let db: Database
  let drop: () => Promise<void>
  let jobs: Jobs

  beforeAll(async () => {
    ;({ db, drop } = await openers[database]())
    jobs = await openJobs(db, { supervise: false, onError: (error) => console.error(error) })
  })
  afterAll(async () => {
    await jobs?.close()
    await db?.close()
    await drop?.()
  })
  beforeEach(() => db.prisma.$executeRaw`DELETE FROM pgboss.job`)

  const enqueue = (planId: string, key?: string) =>
    db.transaction((tx) => jobs.enqueue(tx, FIRE_PLAN, [{ input: { planId }, ...(key === undefined ? {} : { key }) }]))
  const claimOne = async () => (await jobs.claim(FIRE_PLAN, 1))[0] as ClaimedJob
  const states = async () => {
    const rows = await db.prisma.$queryRaw<{ name: string; state: string }[]>`
      SELECT name, state::text FROM pgboss.job ORDER BY created_on`
    return rows.map(({ name, state }) => `${name} ${state}`)
  }
  const pauseSeconds = async () => {
    const [row] = await db.prisma.$queryRaw<{ pause: number }[]>`
      SELECT extract(epoch FROM start_after - now())::float8 AS pause FROM pgboss.job WHERE state = 'retry'`
    return row?.pause ?? 0
  }
  /** Skips the delay after a failed attempt. */
  const hurry = () => db.prisma.$executeRaw`UPDATE pgboss.job SET start_after = now() WHERE state = 'retry'`

  test('is enqueued with its cause or not at all', async () => {
    const failed = db.transaction(async (tx) => {
      await jobs.enqueue(tx, FIRE_PLAN, [{ input: { planId: 'pln_1' } }])
      throw new Error('rolled back')
    })
    await expect(failed).rejects.toThrow('rolled back')
    expect(await states()).toEqual([])
    await enqueue('pln_1')
    expect(await claimOne()).toMatchObject({ data: { planId: 'pln_1' }, retryCount: 0 })
  })

  test('is enqueued once while another job with its key waits, and again while that job runs', async () => {
    await enqueue('pln_1', 'pln_1:noon')
    await enqueue('pln_1', 'pln_1:noon')
    await enqueue('pln_1', 'pln_1:one')
    expect(await jobs.claim(FIRE_PLAN, 10)).toHaveLength(2)
    await enqueue('pln_1', 'pln_1:noon')
    expect(await jobs.claim(FIRE_PLAN, 10)).toHaveLength(1)
  })

  test('a job that is due later is not claimed early', async () => {
    await db.transaction((tx) =>
      jobs.enqueue(tx, FIRE_PLAN, [{ input: { planId: 'pln_1' }, at: new Date(Date.now() + 60_000) }]),
    )
    expect(await jobs.claim(FIRE_PLAN, 10)).toEqual([])
  })

  test('a job that was claimed again can be settled only by its new claim, not by the process of the old one', async () => {
    await enqueue('pln_1')
    const old = await claimOne()
    await jobs.fail(FIRE_PLAN, old, new Error('slow'))
    await hurry()
    const fresh = await claimOne()
    expect(await jobs.complete(FIRE_PLAN, old)).toBe(false)
    expect(await jobs.fail(FIRE_PLAN, old, new Error('late'))).toBe(false)
    expect([...(await jobs.renew(FIRE_PLAN, [old]))]).toEqual([])
    expect([...(await jobs.renew(FIRE_PLAN, [fresh]))]).toEqual([fresh.id])
    expect(await jobs.complete(FIRE_PLAN, fresh)).toBe(true)
    expect(await states()).toEqual(['fire-plan completed'])
  })

  test('is completed with its effect or not at all', async () => {
    await enqueue('pln_1')
    const job = await claimOne()
    const failed = db.transaction(async (tx) => {
      expect(await jobs.complete(FIRE_PLAN, job, tx)).toBe(true)
      throw new Error('rolled back')
    })
    await expect(failed).rejects.toThrow('rolled back')
    expect(await states()).toEqual(['fire-plan active'])
  })

  test('a job that fails is retried after increasing delays', async () => {
    await enqueue('pln_1')
    const pauses: number[] = []
    for (let n = 0; n < 5; n++) {
      await jobs.fail(FIRE_PLAN, await claimOne(), new Error('No.'))
      pauses.push(await pauseSeconds())
      await hurry()
    }
    expect(pauses[0]).toBeGreaterThan(0)
    expect(pauses[4]).toBeGreaterThan(4 * (pauses[0] ?? 0))
  })

  test('a job that fails at its last attempt is kept with its error until an admin retries or deletes it', async () => {
    await enqueue('pln_1', 'pln_1:noon')
    const lastAttempt = { ...(await claimOne()), retryCount: 30 }
    await db.prisma.$executeRaw`UPDATE pgboss.job SET retry_count = 30`
    expect(await jobs.fail(FIRE_PLAN, lastAttempt, new Error('No such model.'))).toBe(true)
    const [kept] = await db.prisma.$queryRaw<{ id: string; output: object; key: string; subject: string }[]>`
      SELECT id::text, source_output AS output, singleton_key AS key, group_id AS subject FROM pgboss.job WHERE name = ${FAILED_JOBS}`
    expect(kept).toMatchObject({ output: { message: 'No such model.' }, key: 'pln_1:noon', subject: 'pln_1' })
    expect(await jobs.claim(FIRE_PLAN, 1)).toEqual([])
    expect(await db.transaction((tx) => jobs.retryFailed(tx, kept?.id ?? ''))).toBe(true)
    expect(await claimOne()).toMatchObject({ data: { planId: 'pln_1' }, retryCount: 0, retryLimit: 30 })
    expect(await db.transaction((tx) => jobs.deleteFailed(tx, kept?.id ?? ''))).toBe(false)
  })

  const notice = (id: string, toolCallId: string) =>
    Prisma.sql`
      SELECT ${toolCallId}::text AS key, ${toolCallId}::text AS subject, jsonb_build_object(
        'id', ${id}::text, 'agentId', 'agt_1', 'toolCallId', ${toolCallId}::text, 'body', '{}') AS data`
  const enqueueNotice = (id: string, toolCallId: string) =>
    db.prisma.$executeRaw(enqueueSql(SEND_NOTICE, notice(id, toolCallId)))
  const claimNotices = async () => {
    const claimed = await jobs.claim(SEND_NOTICE, 10)
    return claimed.map((job) => ({ id: (job.data as { id: string }).id, job }))
  }

  test('a job of an ordered kind runs after earlier jobs with its key, and waits for a failed one', async () => {
    await db.transaction(async (tx) => {
      for (const id of ['a1', 'a2', 'a3']) await tx.$executeRaw(enqueueSql(SEND_NOTICE, notice(id, 'tcl_a')))
      await tx.$executeRaw(enqueueSql(SEND_NOTICE, notice('b1', 'tcl_b')))
    })
    const [a1, b1, ...more] = (await claimNotices()).sort((one, other) => one.id.localeCompare(other.id))
    expect([a1?.id, b1?.id, more]).toEqual(['a1', 'b1', []])
    await jobs.fail(SEND_NOTICE, a1!.job, new Error('503'))
    expect(await claimNotices()).toEqual([])
    await hurry()
    const [again] = await claimNotices()
    expect(again?.id).toBe('a1')
    await db.prisma.$executeRaw`UPDATE pgboss.job SET retry_count = 35 WHERE id = ${again!.job.id}::uuid`
    await jobs.fail(SEND_NOTICE, { ...again!.job, retryCount: 35 }, new Error('503'))
    const [a2] = await claimNotices()
    expect(a2?.id).toBe('a2')
    await jobs.complete(SEND_NOTICE, a2!.job)
    expect((await claimNotices()).map(({ id }) => id)).toEqual(['a3'])
  })

  test('a job of an ordered kind is queued after the waiting jobs, even if the clock was set back', async () => {
    await enqueueNotice('a1', 'tcl_a')
    await db.prisma.$executeRaw`UPDATE pgboss.job SET created_on = now() + interval '1 hour'`
    await enqueueNotice('a2', 'tcl_a')
    expect((await claimNotices()).map(({ id }) => id)).toEqual(['a1'])
  })

  test('a job that a statement enqueues has the same row as one that pg-boss writes', async () => {
    await enqueueNotice('by-statement', 'tcl_a')
    const input = { id: 'by-boss', agentId: 'agt_1', toolCallId: 'tcl_b', body: '{}' }
    await db.transaction((tx) => jobs.enqueue(tx, SEND_NOTICE, [{ input }]))
    const rows = await db.prisma.$queryRaw<{ row: Record<string, unknown> }[]>`
      SELECT to_jsonb(j) - '{id,data,singleton_key,group_id,created_on,start_after,keep_until}'::text[]
        || jsonb_build_object('kept', extract(epoch FROM keep_until - start_after)) AS row
      FROM pgboss.job j ORDER BY data->>'id'`
    expect(rows).toHaveLength(2)
    expect(rows[1]).toEqual(rows[0])
  })

  test('a job of a periodic kind is enqueued once in a period, and not while the last one runs', async () => {
    for (let n = 0; n < 3; n++) await jobs.enqueuePeriodic(DELETE_OLD_ROWS)
    const [job, ...more] = await jobs.claim(DELETE_OLD_ROWS, 10)
    expect(more).toEqual([])
    await db.prisma.$executeRaw`UPDATE pgboss.job SET singleton_on = singleton_on - interval '1 hour'`
    await jobs.enqueuePeriodic(DELETE_OLD_ROWS)
    expect(await states()).toEqual(['delete-old-rows active'])
    await jobs.complete(DELETE_OLD_ROWS, job!)
    await jobs.enqueuePeriodic(DELETE_OLD_ROWS)
    await jobs.enqueuePeriodic(DELETE_OLD_ROWS)
    expect(await states()).toEqual(['delete-old-rows completed', 'delete-old-rows created'])
  })
})
