import { fromPrisma, PgBoss } from 'pg-boss'
import { messageOf } from '../lib/errors.ts'
import type { Database, Tx } from './db.ts'

/** What wakes a worker. A job is a wake-up only: the row that it names decides whether there is anything to do. */
export type WakeUp =
  /** A run to start, to resume, or to take over. Counts against its agent's concurrency while it is worked on. */
  | { type: 'run'; runId: string; agentId: string; concurrency: number }
  /** A persistent agent whose inbox is not empty. */
  | { type: 'cycle'; agentId: string }
  /** A tool call whose time is up. */
  | { type: 'tool-deadline'; toolCallId: string }
  /** A run whose time is up while nothing executes it. */
  | { type: 'run-deadline'; runId: string }
  /** A plan's next slot has come. */
  | { type: 'plan'; planId: string }

/** A job in the hands of this process until it is completed, given back, or not touched for 10 s. */
export interface ClaimedJob {
  id: string
  wakeUp: WakeUp
}

/** The queue, in the same database and the same transactions as everything else. */
export interface Jobs {
  /** Enqueues within a transaction; `at` delays. Ring the workers' bell after the commit. */
  enqueue(tx: Tx, wakeUps: { wakeUp: WakeUp; at?: Date }[]): Promise<void>
  /** Claims up to `most` jobs, oldest first, none of an agent that executes as many runs as it may. */
  claim(most: number): Promise<ClaimedJob[]>
  /** The work is done, or there was none. */
  complete(jobs: ClaimedJob[]): Promise<void>
  /** Hands the job to another worker at once. */
  release(job: ClaimedJob): Promise<void>
  /** Says that this process still works on them; without it they are handed on after 10 s. */
  touch(jobs: ClaimedJob[]): Promise<void>
  close(): Promise<void>
}

/** The greatest value of an agent's `maxConcurrentRuns`. */
export const MOST_CONCURRENT_RUNS = 100

const QUEUE = 'wake-ups'
/** No job of ours has a priority like this. */
const NEVER = 2_000_000
const DAY = 86_400
const TIERS = Object.fromEntries(Array.from({ length: MOST_CONCURRENT_RUNS }, (_, i) => [String(i + 1), i + 1]))
const GROUP_CONCURRENCY = { default: 5, tiers: TIERS }

function jobOf(wakeUp: WakeUp, at?: Date) {
  const group =
    wakeUp.type === 'run'
      ? { id: wakeUp.agentId, tier: String(wakeUp.concurrency) }
      : wakeUp.type === 'cycle'
        ? { id: wakeUp.agentId, tier: '1' }
        : undefined
  return { data: wakeUp, ...(group ? { group } : {}), ...(at ? { startAfter: at } : {}) }
}

/**
 * Starts pg-boss on the database. A worker also supervises: a job that nobody touched for 10 s is handed on.
 * Why pg-boss's own workers are not used: docs/decisions/2026-11-21-a-job-is-a-wake-up.md.
 */
export async function openJobs(
  db: Database,
  options: { supervise: boolean; onError: (error: Error) => void },
): Promise<Jobs> {
  const boss = new PgBoss({
    ...db.bossOptions,
    supervise: options.supervise,
    schedule: false,
    superviseIntervalSeconds: 1,
    monitorIntervalSeconds: 1,
    maintenanceIntervalSeconds: 60,
  })
  boss.on('error', options.onError)
  await boss.start()
  await boss.createQueue(QUEUE, {
    policy: 'standard',
    heartbeatSeconds: 10,
    retryLimit: 1_000_000,
    expireInSeconds: DAY - 1,
    retentionSeconds: 400 * DAY,
    deleteAfterSeconds: 60,
  })
  // Makes pg-boss look the queue up now: within a transaction its first look would wait for PGlite's one connection for ever.
  await boss.fetch(QUEUE, { batchSize: 1, minPriority: NEVER })
  return {
    async enqueue(tx, wakeUps) {
      if (wakeUps.length === 0) return
      const jobs = wakeUps.map(({ wakeUp, at }) => jobOf(wakeUp, at))
      await boss.insert(QUEUE, jobs, { db: fromPrisma(tx) })
    },
    async claim(most) {
      const jobs = await boss.fetch<WakeUp>(QUEUE, { batchSize: most, groupConcurrency: GROUP_CONCURRENCY })
      return jobs.map((job) => ({ id: job.id, wakeUp: job.data }))
    },
    async complete(jobs) {
      if (jobs.length > 0)
        await boss.complete(
          QUEUE,
          jobs.map((job) => job.id),
        )
    },
    async release(job) {
      await boss.fail(QUEUE, job.id)
    },
    async touch(jobs) {
      if (jobs.length > 0)
        await boss.touch(
          QUEUE,
          jobs.map((job) => job.id),
        )
    },
    async close() {
      await boss.stop({ graceful: false }).catch((error) => options.onError(new Error(messageOf(error))))
    },
  }
}
