import { Gauge } from 'prom-client'
import { sleep } from '../lib/async.ts'
import { messageOf } from '../lib/errors.ts'
import type { Platform } from '../platform/platform.ts'
import { FAILED_JOBS } from './queue-options.ts'
import { JOB_KINDS } from './queues.ts'

const TIMEOUT_MS = 2000
const STATES = ['scheduled', 'due', 'retrying', 'running', 'failed'] as const

interface Row {
  queue: string
  state: (typeof STATES)[number]
  jobs: number
}

/**
 * Reports the number of jobs by queue and state, which it reads from the database at each scrape. Every process reports
 * the same values, so aggregate them with the maximum, not the sum.
 */
export function watchJobs({ db, metrics, logger }: Pick<Platform, 'db' | 'metrics' | 'logger'>): void {
  new Gauge({
    name: 'parley_jobs',
    help: 'Jobs by queue and state (scheduled, due, retrying, running, failed).',
    labelNames: ['queue', 'state'] as const,
    registers: [metrics],
    async collect() {
      const rows = await Promise.race([countJobs(db), sleep(TIMEOUT_MS).then(() => [])]).catch((error) => {
        logger.warn({ error: messageOf(error) }, 'could not count jobs')
        return []
      })
      this.reset()
      for (const { name: queue } of JOB_KINDS) for (const state of STATES) this.set({ queue, state }, 0)
      for (const { queue, state, jobs } of rows) this.set({ queue, state }, jobs)
    },
  })
}

/**
 * Counts the jobs that are not completed. Excludes the originals of failed jobs, which pg-boss keeps for some
 * minutes.
 */
function countJobs(db: Platform['db']): Promise<Row[]> {
  return db.prisma.$queryRaw<Row[]>`
    SELECT queue, state, count(*)::int AS jobs FROM (
      SELECT coalesce(source_name, name) AS queue, CASE
        WHEN name = ${FAILED_JOBS} THEN 'failed'
        WHEN state = 'active' THEN 'running'
        WHEN state = 'retry' THEN 'retrying'
        WHEN start_after > now() THEN 'scheduled'
        ELSE 'due' END AS state
      FROM job WHERE state < 'completed' AND (name = ${FAILED_JOBS} OR name = ANY(${JOB_KINDS.map(({ name }) => name)}::text[]))
    ) j GROUP BY 1, 2`
}
