import { Prisma } from '../generated/prisma/client.ts'
import { createBell, sleep } from '../lib/async.ts'
import { messageOf } from '../lib/errors.ts'
import { counter, histogram } from '../lib/metrics.ts'
import type { Platform } from '../platform/platform.ts'
import { type BoundJob, type JobContext, JobLostError, PermanentJobError } from './job.ts'
import type { ClaimedJob } from './jobs.ts'
import { DUE_JOBS_CHANNEL } from './queues.ts'

/** Runs jobs in this process. */
export interface JobWorker {
  /** Stops claiming, aborts the signals of the running jobs, and waits until they have ended. */
  close(): Promise<void>
}

/** The maximum time between two polls. A signal or a job that becomes due ends the wait earlier. */
const POLL_MS = 1000
/** The interval at which the claims of running jobs are renewed. */
const RENEW_MS = 3000
/** How long the completion of a job is retried while the database is unavailable. */
const SETTLE_MS = 8000
const SETTLE_AGAIN_MS = 500

interface Running {
  bound: BoundJob
  job: ClaimedJob
  lost: AbortController
  since: number
  done: Promise<void>
}

/**
 * Starts the worker. One statement per second finds the kinds of jobs that are due, and the time when the next job is
 * due, according to the database clock. Only jobs of due kinds are requested from pg-boss.
 */
export async function startJobWorker(
  { db, jobs, signals, logger, metrics }: Pick<Platform, 'db' | 'jobs' | 'signals' | 'logger' | 'metrics'>,
  bound: readonly BoundJob[],
): Promise<JobWorker> {
  const closing = new AbortController()
  const bell = createBell()
  const running = new Map<string, Running>()
  const nextPeriods = new Map<BoundJob, number>()
  const { ended, took } = createJobMetrics(metrics)
  const nextJobsSql = selectNextJobsSql(bound.map(({ kind }) => kind.name))

  function countOf({ kind }: BoundJob): number {
    return [...running.values()].filter((one) => one.bound.kind === kind).length
  }

  /** Enqueues the periodic jobs of the current period. The queue keeps one job per period across all processes. */
  async function enqueuePeriodic(): Promise<void> {
    for (const one of bound) {
      const { everySeconds } = one.kind
      if (everySeconds === null || performance.now() < (nextPeriods.get(one) ?? 0)) continue
      await jobs.enqueuePeriodic(one.kind)
      nextPeriods.set(one, performance.now() + everySeconds * 1000)
    }
  }

  /** Starts the due jobs. Returns the time until the next poll in ms. */
  async function poll(): Promise<number> {
    await enqueuePeriodic()
    const rows = await db.query<{ name: string; inMs: number }>(nextJobsSql)
    const inMs = new Map(rows.map((row) => [row.name, row.inMs]))
    for (const one of bound) if ((inMs.get(one.kind.name) ?? 1) <= 0) await claim(one)
    return Math.min(POLL_MS, ...rows.map((row) => (row.inMs > 0 ? row.inMs : POLL_MS)))
  }

  async function claim(one: BoundJob): Promise<void> {
    const room = one.kind.concurrency - countOf(one)
    if (room <= 0 || closing.signal.aborted) return
    for (const job of await jobs.claim(one.kind, room)) begin(one, job)
  }

  function begin(one: BoundJob, job: ClaimedJob): void {
    const key = `${one.kind.name} ${job.id}`
    const lost = new AbortController()
    const isLast = countOf(one) + 1 === one.kind.concurrency
    const done = perform(one, job, lost.signal).finally(() => {
      running.delete(key)
      // More jobs may be waiting for a free slot or for the end of this job.
      if (isLast || one.kind.isOrdered) bell.ring()
    })
    running.set(key, { bound: one, job, lost, since: performance.now(), done })
  }

  async function perform({ kind, handle }: BoundJob, job: ClaimedJob, lost: AbortSignal): Promise<void> {
    const stopTimer = took.startTimer({ queue: kind.name })
    const attempt = job.retryCount + 1
    let isCompleted = false
    const context: JobContext = {
      attempt,
      signal: AbortSignal.any([closing.signal, lost]),
      async complete(tx) {
        if (!(await jobs.complete(kind, job, tx))) throw new JobLostError()
        isCompleted = true
      },
    }
    try {
      await handle(job.data, context)
      if (!isCompleted) await settle(() => jobs.complete(kind, job))
      ended.inc({ queue: kind.name, result: 'completed' })
    } catch (error) {
      if (closing.signal.aborted && !(error instanceof PermanentJobError)) await release(kind, job)
      else await fail(kind, job, error)
    } finally {
      stopTimer()
    }
  }

  /** Returns a job to the queue if the shutdown has interrupted it. This is not counted as a failure of the job. */
  async function release(kind: BoundJob['kind'], job: ClaimedJob): Promise<void> {
    const about = { job: kind.name, subjectId: subjectOf(kind, job), attempt: job.retryCount + 1 }
    try {
      await jobs.release(kind, job)
      logger.info(about, 'a job was interrupted by the shutdown; it is retried')
    } catch (error) {
      logger.warn({ ...about, error: messageOf(error) }, 'could not release a job at the shutdown; it is retried later')
    }
    ended.inc({ queue: kind.name, result: 'retried' })
  }

  async function fail(kind: BoundJob['kind'], job: ClaimedJob, error: unknown): Promise<void> {
    const isLast = error instanceof PermanentJobError || job.retryCount >= job.retryLimit
    const about = {
      job: kind.name,
      subjectId: subjectOf(kind, job),
      attempt: job.retryCount + 1,
      error: messageOf(error),
    }
    try {
      if (!(await settle(() => jobs.fail(kind, job, error)))) {
        logger.warn(about, 'a job that no longer belongs to this process failed')
        return
      }
    } catch (failure) {
      logger.warn({ ...about, failure: messageOf(failure) }, 'could not record that a job failed; it is retried later')
      return
    }
    ended.inc({ queue: kind.name, result: isLast ? 'failed' : 'retried' })
    if (isLast) logger.error(about, 'a job failed at its last attempt; it is kept as a failed job')
    else logger.warn(about, 'a job failed; it is retried')
  }

  /** Repeats `work` for some seconds while it throws, so that a finished job is not performed again. */
  async function settle(work: () => Promise<boolean>): Promise<boolean> {
    const until = performance.now() + SETTLE_MS
    for (;;) {
      try {
        return await work()
      } catch (error) {
        if (performance.now() > until) throw error
        await sleep(SETTLE_AGAIN_MS)
      }
    }
  }

  async function pollForEver(): Promise<void> {
    while (!closing.signal.aborted) {
      const nextMs = await poll().catch((error) => {
        logger.warn({ error: messageOf(error) }, 'could not poll for due jobs; retrying')
        return POLL_MS
      })
      await bell.wait(Math.max(1, Math.ceil(nextMs)), closing.signal)
    }
  }

  /** Renews the claims of long jobs, and aborts those that another process has claimed. */
  async function renew(): Promise<void> {
    const long = [...running.values()].filter(({ since }) => performance.now() - since >= RENEW_MS)
    for (const [kind, held] of Map.groupBy(long, (one) => one.bound.kind)) {
      const kept = await jobs.renew(
        kind,
        held.map(({ job }) => job),
      )
      for (const { job, lost } of held) if (!kept.has(job.id)) lost.abort()
    }
  }

  async function renewForEver(): Promise<void> {
    while (!closing.signal.aborted) {
      await sleep(RENEW_MS, closing.signal)
      await renew().catch((error) => logger.warn({ error: messageOf(error) }, 'could not renew the claims of jobs'))
    }
  }

  const leave = await signals.subscribe(DUE_JOBS_CHANNEL, () => bell.ring())
  const loops = [pollForEver(), renewForEver()]
  return {
    async close() {
      leave()
      closing.abort()
      await Promise.all(loops)
      await Promise.all([...running.values()].map(({ done }) => done))
    },
  }
}

/** Selects the kinds that have jobs due within a second, and the time in ms until the first job is due. */
const selectNextJobsSql = (names: string[]) => Prisma.sql`
  SELECT name, (extract(epoch FROM min(start_after) - now()) * 1000)::float8 AS "inMs" FROM job
  WHERE name = ANY(${names}::text[]) AND state < 'active' AND NOT blocked AND start_after <= now() + interval '1 second'
  GROUP BY name`

function subjectOf(kind: BoundJob['kind'], { data }: ClaimedJob): string | null {
  const input = kind.input.safeParse(data)
  return input.success ? kind.subject(input.data) : null
}

function createJobMetrics(metrics: Platform['metrics']) {
  return {
    ended: counter(
      metrics,
      'parley_jobs_attempts_total',
      'Attempts of jobs that ended in this process, by queue and result (completed, retried, failed).',
      ['queue', 'result'],
    ),
    took: histogram(metrics, 'parley_jobs_attempt_seconds', 'Duration of attempts of jobs in this process, by queue.', {
      buckets: [0.01, 0.05, 0.25, 1, 5, 30],
      labelNames: ['queue'],
    }),
  }
}
