import { fromPrisma, PgBoss } from 'pg-boss'
import { messageOf } from '../lib/errors.ts'
import { type Database, openDatabase, type Tx } from './db.ts'

/** The content of a job. It only causes a check: the row that it names decides whether there is something to do. */
export interface WakeUp {
  /** The next slot of a plan is due. */
  type: 'plan'
  planId: string
}

/** One delivery of a job, claimed by this process until it is settled, or for a minute. */
export interface ClaimedJob {
  id: string
  /** Identifies the delivery: settling an earlier delivery has no effect. */
  retryCount: number
  wakeUp: WakeUp
}

/** The queue of work at chosen times, in the same database and transactions as everything else. */
export interface Jobs {
  /** Enqueues jobs within a transaction. */
  enqueue(tx: Tx, wakeUps: { wakeUp: WakeUp; at: Date }[]): Promise<void>
  /** Claims up to `most` jobs that are due. */
  claim(most: number): Promise<ClaimedJob[]>
  /** Completes jobs whose work is done, or that had none. */
  complete(jobs: ClaimedJob[]): Promise<void>
  /** Releases a job whose work failed, to be retried after an increasing delay. */
  release(job: ClaimedJob): Promise<void>
  close(): Promise<void>
}

const QUEUE = 'wake-ups'
/** Higher than the priority of any job. */
const NEVER = 2_000_000
const DAY = 86_400
const OPTIONS = {
  heartbeatSeconds: null,
  retryLimit: 1_000_000,
  retryDelay: 1,
  retryBackoff: true,
  retryDelayMax: 600,
  expireInSeconds: 60,
  retentionSeconds: 400 * DAY,
  deleteAfterSeconds: 60,
}

/**
 * Starts pg-boss on the database. A worker also supervises: jobs that are not settled within a minute are delivered
 * again. docs/decisions/claiming-runs.md explains its purpose, and why its own workers are not used.
 */
export async function openJobs(
  db: Database,
  options: { supervise: boolean; onError: (error: Error) => void },
): Promise<Jobs> {
  const boss = new PgBoss({
    ...db.bossOptions,
    supervise: options.supervise,
    schedule: false,
    superviseIntervalSeconds: 60,
    monitorIntervalSeconds: 60,
    maintenanceIntervalSeconds: 600,
    // For jobs that depend on others, which are not used.
    flowIntervalSeconds: 600,
  })
  boss.on('error', options.onError)
  await boss.start()
  await boss.createQueue(QUEUE, { policy: 'standard' })
  await boss.updateQueue(QUEUE, OPTIONS)
  // Makes pg-boss look up the queue now: its first lookup within a transaction would wait for PGlite's only connection
  // for ever.
  await boss.fetch(QUEUE, { batchSize: 1, minPriority: NEVER })
  const deliveriesOf = (jobs: ClaimedJob[]) => jobs.map(({ id, retryCount }) => ({ id, retryCount }))
  return {
    async enqueue(tx, wakeUps) {
      if (wakeUps.length === 0) return
      const jobs = wakeUps.map(({ wakeUp, at }) => ({ data: wakeUp, startAfter: at }))
      await boss.insert(QUEUE, jobs, { db: fromPrisma(tx) })
    },
    async claim(most) {
      const jobs = await boss.fetch<WakeUp>(QUEUE, { batchSize: most, includeMetadata: true })
      return jobs.map(({ id, retryCount, data }) => ({ id, retryCount, wakeUp: data }))
    },
    async complete(jobs) {
      if (jobs.length > 0) await boss.complete(QUEUE, deliveriesOf(jobs))
    },
    async release(job) {
      await boss.fail(QUEUE, deliveriesOf([job]))
    },
    async close() {
      await boss.stop({ graceful: false }).catch((error) => options.onError(new Error(messageOf(error))))
    },
  }
}

/** Creates an embedded database with everything that a first start creates. */
export async function makeEmbedded(dataDirectory: string): Promise<void> {
  const db = await openDatabase({ url: null, dataDirectory })
  const jobs = await openJobs(db, { supervise: false, onError: () => {} })
  await jobs.close()
  await db.close()
}
