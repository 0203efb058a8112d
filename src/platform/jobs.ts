import { fromPrisma, PgBoss } from 'pg-boss'
import { messageOf } from '../lib/errors.ts'
import { type Database, openDatabase, type Tx } from './db.ts'

/** What a job asks for. It is a wake-up only: the row that it names decides whether there is anything to do. */
export interface WakeUp {
  /** A plan's next slot has come. */
  type: 'plan'
  planId: string
}

/** One delivery of a job, in the hands of this process until it is settled, or for a minute. */
export interface ClaimedJob {
  id: string
  /** Which delivery this is: what settles an earlier one settles nothing. */
  retryCount: number
  wakeUp: WakeUp
}

/** The queue of what happens at a time that people choose, in the same database and the same transactions as everything else. */
export interface Jobs {
  /** Enqueues for a time, within a transaction. */
  enqueue(tx: Tx, wakeUps: { wakeUp: WakeUp; at: Date }[]): Promise<void>
  /** Claims up to `most` jobs whose time has come. */
  claim(most: number): Promise<ClaimedJob[]>
  /** The work is done, or there was none. */
  complete(jobs: ClaimedJob[]): Promise<void>
  /** The work failed: it is tried again after a pause, longer each time. */
  release(job: ClaimedJob): Promise<void>
  close(): Promise<void>
}

const QUEUE = 'wake-ups'
/** No job of ours has a priority like this. */
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
 * Starts pg-boss on the database. A worker also supervises: a job that nobody settled within a minute is delivered again.
 * What it is for, and why its own workers are not used: docs/decisions/claiming-runs.md.
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
    // Jobs that depend on others: there are none.
    flowIntervalSeconds: 600,
  })
  boss.on('error', options.onError)
  await boss.start()
  await boss.createQueue(QUEUE, { policy: 'standard' })
  await boss.updateQueue(QUEUE, OPTIONS)
  // Makes pg-boss look the queue up now: within a transaction its first look would wait for PGlite's one connection for ever.
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

/** A new embedded database under a directory, with all that a first start makes in it. */
export async function makeEmbedded(dataDirectory: string): Promise<void> {
  const db = await openDatabase({ url: null, dataDirectory })
  const jobs = await openJobs(db, { supervise: false, onError: () => {} })
  await jobs.close()
  await db.close()
}
