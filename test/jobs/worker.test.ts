import pino from 'pino'
import { Registry } from 'prom-client'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { createMemorySignals } from '../../src/broker/memory/signals.ts'
import { type BoundJob, bindJob, type JobContext } from '../../src/jobs/job.ts'
import { watchJobs } from '../../src/jobs/job-metrics.ts'
import { type Jobs, openJobs } from '../../src/jobs/jobs.ts'
import { DELETE_OLD_ROWS, DUE_JOBS_CHANNEL, FIRE_PLAN } from '../../src/jobs/queues.ts'
import { type JobWorker, startJobWorker } from '../../src/jobs/worker.ts'
import { createDeferred } from '../../src/lib/async.ts'
import { type Database, openDatabase } from '../../src/platform/db.ts'
import { createTestDatabase, hasPostgres, type TestDatabase } from '../support/postgres.ts'
import { until } from '../support/until.ts'

const logger = pino({ level: 'silent' })
const signals = createMemorySignals(logger)

describe.skipIf(!hasPostgres)('a worker of jobs', () => {
  let database: TestDatabase
  let db: Database
  let jobs: Jobs
  const workers: JobWorker[] = []
  let metrics: Registry

  beforeAll(async () => {
    database = await createTestDatabase()
    db = await openDatabase({ url: database.url, dataDirectory: '', poolSize: 5 })
    jobs = await openJobs(db, { supervise: true, onError: (error) => console.error(error) })
  })
  beforeEach(async () => {
    metrics = new Registry()
    await db.prisma.$executeRaw`DELETE FROM pgboss.job`
  })
  afterEach(() => Promise.all(workers.splice(0).map((worker) => worker.close())))
  afterAll(async () => {
    await jobs?.close()
    await db?.close()
    await database?.drop()
  })

  async function start(...bound: BoundJob[]): Promise<JobWorker> {
    const worker = await startJobWorker({ db, jobs, signals, logger, metrics }, bound)
    workers.push(worker)
    return worker
  }
  const firing = (handle: (planId: string, context: JobContext) => Promise<void>) =>
    bindJob(FIRE_PLAN, ({ planId }, context) => handle(planId, context))
  const enqueue = (planIds: string[], at?: Date) =>
    db.transaction((tx) =>
      jobs.enqueue(
        tx,
        FIRE_PLAN,
        planIds.map((planId) => ({ input: { planId }, ...(at === undefined ? {} : { at }) })),
      ),
    )
  const count = (state: string) =>
    db.prisma.$queryRaw<{ count: number }[]>`
      SELECT count(*)::int AS count FROM pgboss.job WHERE state::text = ${state}`.then(([row]) => row?.count)
  const metric = async (line: string) => (await metrics.metrics()).split('\n').find((one) => one.startsWith(line))

  test('runs each job once, with limited concurrency, and counts them', async () => {
    const ran: string[] = []
    let atATime = 0
    let most = 0
    await start(
      firing(async (planId) => {
        ran.push(planId)
        most = Math.max(most, ++atATime)
        await new Promise((resolve) => setTimeout(resolve, 5))
        atATime--
      }),
    )
    const planIds = Array.from({ length: 23 }, (_, index) => `pln_${index}`)
    await enqueue(planIds)
    await until('all are completed', async () => (await count('completed')) === 23)
    expect(ran.sort()).toEqual([...planIds].sort())
    expect(most).toBe(FIRE_PLAN.concurrency)
    await until('all are counted', () => metric('parley_jobs_attempts_total{queue="fire-plan",result="completed"} 23'))
  })

  test('starts a due job at the wake-up signal, not at the next poll', async () => {
    const ran: string[] = []
    await start(firing(async (planId) => void ran.push(planId)))
    const began = performance.now()
    for (let n = 1; n <= 10; n++) {
      await enqueue([`pln_${n}`])
      await signals.publish(DUE_JOBS_CHANNEL, {})
      await until('it has run', async () => ran.length === n && (await count('completed')) === n)
    }
    // Ten polls would take ten seconds.
    expect(performance.now() - began).toBeLessThan(7000)
  })

  test('runs a job at its due time, not a second later', async () => {
    const at = new Date(Date.now() + 1500)
    const ran = createDeferred<number>()
    await start(firing(async () => ran.resolve(Date.now())))
    await enqueue(['pln_1'], at)
    const late = (await ran.promise) - at.getTime()
    expect(late).toBeGreaterThanOrEqual(0)
    expect(late).toBeLessThan(600)
  })

  test('retries a failed job, and keeps input that it cannot read', async () => {
    const attempts: number[] = []
    await start(
      firing(async (_, { attempt }) => {
        attempts.push(attempt)
        if (attempt === 1) throw new Error('No.')
      }),
    )
    await enqueue(['pln_1'])
    await until('it is completed', async () => (await count('completed')) === 1)
    expect(attempts).toEqual([1, 2])
    await db.prisma.$executeRaw`UPDATE pgboss.job SET state = 'retry', completed_on = NULL, data = '{"plan": 1}'`
    await until('its input is refused', () =>
      metric('parley_jobs_attempts_total{queue="fire-plan",result="retried"} 2'),
    )
    expect(attempts).toEqual([1, 2])
  })

  test('takes over the job of a dead process, when pg-boss has missed its heartbeats', {
    timeout: 60_000,
  }, async () => {
    await enqueue(['pln_1'])
    // The job was claimed by a process that sends nothing more.
    await until('it is claimed', async () => (await jobs.claim(FIRE_PLAN, 1)).length === 1)
    const ran = createDeferred<number>()
    await start(firing(async (_, { attempt }) => ran.resolve(attempt)))
    expect(await ran.promise).toBe(2)
  })

  test('aborts a job that another process has claimed since, and whose completion has no effect', async () => {
    const aborted = createDeferred<boolean>()
    await start(
      firing(async (_, { signal, complete }) => {
        await new Promise((resolve) => signal.addEventListener('abort', resolve))
        aborted.resolve(
          await db.transaction(complete).then(
            () => false,
            () => true,
          ),
        )
      }),
    )
    await enqueue(['pln_1'])
    await until('it runs', async () => (await count('active')) === 1)
    await db.prisma.$executeRaw`UPDATE pgboss.job SET retry_count = retry_count + 1`
    expect(await aborted.promise).toBe(true)
    expect(await count('active')).toBe(1)
  })

  test('closing the worker aborts its jobs and waits for them; they are retried', async () => {
    let isOver = false
    const begun = createDeferred()
    const worker = await start(
      firing(async (_, { signal }) => {
        begun.resolve()
        await new Promise((resolve) => signal.addEventListener('abort', resolve))
        isOver = true
        throw new Error('interrupted')
      }),
    )
    await enqueue(['pln_1'])
    await begun.promise
    await worker.close()
    expect(isOver).toBe(true)
    expect(await count('retry')).toBe(1)
  })

  test('shutdowns count as no attempt of the jobs that they interrupt', async () => {
    const attempts: number[] = []
    await enqueue(['pln_1'])
    for (let shutdown = 1; shutdown <= 3; shutdown++) {
      const worker = await start(
        firing(async (_, { attempt, signal }) => {
          attempts.push(attempt)
          await new Promise((resolve) => signal.addEventListener('abort', resolve))
          throw signal.reason
        }),
      )
      await until(`attempt ${shutdown} runs`, () => attempts.length === shutdown)
      await worker.close()
    }
    await start(
      firing(async (_, { attempt }) => {
        attempts.push(attempt)
        if (attempt === 1) throw new Error('No.')
      }),
    )
    await until('it is completed', async () => (await count('completed')) === 1)
    expect(attempts).toEqual([1, 1, 1, 1, 2])
  })

  test('runs a periodic job at once, and once over all workers', async () => {
    let ran = 0
    const bound = bindJob(DELETE_OLD_ROWS, async () => {
      ran++
    })
    for (let n = 0; n < 3; n++) await start(bound)
    await until('it is completed', async () => (await count('completed')) === 1)
    const another = createDeferred()
    await start(firing(async () => another.resolve()))
    await enqueue(['pln_1'])
    await another.promise
    expect(ran).toBe(1)
  })

  test('continues after the database was unreachable', async () => {
    let isAway = true
    const frail: Jobs = {
      ...jobs,
      claim: (kind, most) => (isAway ? Promise.reject(new Error('away')) : jobs.claim(kind, most)),
    }
    const ran = createDeferred()
    workers.push(
      await startJobWorker({ db, jobs: frail, signals, logger, metrics }, [firing(async () => ran.resolve())]),
    )
    await enqueue(['pln_1'])
    await new Promise((resolve) => setTimeout(resolve, 50))
    isAway = false
    await ran.promise
  })

  test('shows jobs by state', async () => {
    watchJobs({ db, metrics, logger })
    await enqueue(['pln_1'])
    await enqueue(['pln_2'], new Date(Date.now() + 60_000))
    await jobs.claim(FIRE_PLAN, 1)
    expect(await metric('parley_jobs{queue="fire-plan",state="running"}')).toMatch(/ 1$/)
    expect(await metric('parley_jobs{queue="fire-plan",state="scheduled"}')).toMatch(/ 1$/)
    expect(await metric('parley_jobs{queue="fire-plan",state="failed"}')).toMatch(/ 0$/)
  })
})
