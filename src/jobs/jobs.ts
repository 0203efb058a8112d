import { fromPrisma, PgBoss } from 'pg-boss'
import { messageOf } from '../lib/errors.ts'
import type { Database, JobOwner, Tx } from '../platform/db.ts'
import { type JobKind, PermanentJobError } from './job.ts'
import { FAILED_JOBS, optionsOf, policyOf, type Queue } from './queue-options.ts'
import { JOB_KINDS } from './queues.ts'

/** A job to enqueue. */
export interface NewJob<Input> {
  input: Input
  /** The earliest start; now if absent. */
  at?: Date
  /**
   * Identifies the work. While a job waits for its first attempt, no other job with the same key is enqueued. For an
   * ordered kind, jobs with the same key run one at a time. The default is the subject.
   */
  key?: string
}

/** An attempt at a job. It belongs to this process until it is settled, or until it has not been renewed for 10 s. */
export interface ClaimedJob {
  id: string
  /** Identifies the attempt. Settling an earlier attempt has no effect. */
  retryCount: number
  retryLimit: number
  data: unknown
}

/** The job queue, which uses the same database and transactions as all other data. */
export interface Jobs {
  /** Enqueues jobs in a transaction. */
  enqueue<Input extends object>(tx: Tx, kind: JobKind<Input>, jobs: readonly NewJob<Input>[]): Promise<void>
  /** Makes the job with this key due now. Returns false if no job with this key waits for its first attempt. */
  hasten(kind: Queue, key: string): Promise<boolean>
  /**
   * Enqueues the periodic job of the current period, unless a process has already done so or the previous job is
   * still running.
   */
  enqueuePeriodic(kind: Queue): Promise<void>
  /** Claims up to `most` jobs that are due. */
  claim(kind: Queue, most: number): Promise<ClaimedJob[]>
  /** Renews claims. Returns the ids of the jobs that still belong to this process. */
  renew(kind: Queue, jobs: readonly ClaimedJob[]): Promise<Set<string>>
  /**
   * Completes a job, in the given transaction if there is one. Returns false if the job no longer belongs to this
   * process.
   */
  complete(kind: Queue, job: ClaimedJob, tx?: Tx): Promise<boolean>
  /**
   * Records that the attempt has failed. The job is retried later, or becomes a failed job after the last attempt or a
   * PermanentJobError. Returns false if the job no longer belongs to this process.
   */
  fail(kind: Queue, job: ClaimedJob, error: unknown): Promise<boolean>
  /**
   * Gives up an attempt that was interrupted by a shutdown. The job is due immediately, and the attempt is not counted.
   * Call this only once, after the attempt has ended, because the next attempt has the same number.
   */
  release(kind: Queue, job: ClaimedJob): Promise<void>
  /**
   * Enqueues a failed job again, with all its retries. Returns false if there is no such failed job, or if another job
   * has its key.
   */
  retryFailed(tx: Tx, id: string): Promise<boolean>
  /** Deletes a failed job. Returns false if there is none. */
  deleteFailed(tx: Tx, id: string): Promise<boolean>
  /**
   * Deletes the jobs with this key that wait for their first attempt, because their work is done. The deletions of
   * several calls are combined and happen within half a second. If this process dies before that, the job is performed,
   * so its work must be idempotent.
   */
  withdraw(kind: Queue, key: string): void
  close(): Promise<void>
}

/**
 * The queue of versions before 0.3, whose jobs contained only the ids of plans; RESTORE_JOBS replaces them. The queue
 * is kept for processes of such a version that are still running.
 */
const FORMER_QUEUE = 'wake-ups'
/** A priority higher than that of any job. */
const NEVER = 2_000_000
const FAILED_JOBS_KEPT_SECONDS = 30 * 86_400
/** The interval at which pg-boss checks for expired claims, in one of the processes. */
const MONITOR_SECONDS = 10
const WITHDRAWN_WITHIN_MS = 500

/**
 * Starts pg-boss on the database and creates the queues. `supervise` says whether this process also ends the claims of
 * dead processes, as workers do. docs/decisions/one-queue-for-jobs.md explains why pg-boss's own workers are not used.
 */
export async function openJobs(
  db: Database,
  options: { supervise: boolean; onError: (error: Error) => void },
): Promise<Jobs> {
  if (db.jobOwner !== null) await createTables(db, db.jobOwner, options.onError)
  const boss = new PgBoss({
    ...db.bossOptions,
    migrate: db.jobOwner === null,
    // Only the owner of the tables may reindex them.
    reindex: db.jobOwner === null,
    supervise: options.supervise,
    schedule: false,
    superviseIntervalSeconds: MONITOR_SECONDS,
    monitorIntervalSeconds: MONITOR_SECONDS,
    maintenanceIntervalSeconds: 600,
    // This option only concerns jobs that depend on other jobs. Parley does not use such jobs.
    flowIntervalSeconds: 600,
  })
  boss.on('error', options.onError)
  await boss.start()
  await createQueues(boss, options.supervise)
  const withdrawals = createWithdrawals(db)
  return {
    withdraw: withdrawals.add,
    async enqueue(tx, kind, jobs) {
      if (jobs.length === 0) return
      const rows = jobs.map(({ input, at, key }) => {
        const subject = kind.subject(input)
        return {
          data: input,
          ...(at === undefined ? {} : { startAfter: at }),
          ...(key === undefined && subject === null ? {} : { singletonKey: key ?? subject ?? '' }),
          ...(subject === null ? {} : { group: { id: subject } }),
        }
      })
      await boss.insert(kind.name, rows, { db: fromPrisma(tx) })
    },
    async hasten({ name }, key) {
      const hastened = await db.prisma.$executeRaw`
        UPDATE job SET start_after = now() WHERE name = ${name} AND singleton_key = ${key} AND state = 'created' AND start_after > now()`
      return hastened > 0
    },
    async enqueuePeriodic({ name, everySeconds }) {
      await boss.insert(name, [{ data: {}, singletonSeconds: everySeconds as number }])
    },
    async claim({ name }, most) {
      const jobs = await boss.fetch<object>(name, { batchSize: most, includeMetadata: true })
      return jobs.map(({ id, retryCount, retryLimit, data }) => ({ id, retryCount, retryLimit, data }))
    },
    async renew({ name }, jobs) {
      return new Set(settled(await boss.touch(name, jobs.map(attemptOf))))
    },
    async complete({ name }, job, tx) {
      const within = tx === undefined ? {} : { db: fromPrisma(tx) }
      return settled(await boss.complete(name, attemptOf(job), null, within)).length > 0
    },
    async fail({ name, isOrdered }, job, error) {
      const output = { message: messageOf(error) }
      const isPermanent = error instanceof PermanentJobError
      const isLast = isPermanent || job.retryCount >= job.retryLimit
      if (!isPermanent && (!isLast || !isOrdered))
        return settled(await boss.fail(name, attemptOf(job), output)).length > 0
      // pg-boss keeps the original of a failed job. It would delay later jobs with the same key.
      return db.transaction(async (tx) => {
        const within = { db: fromPrisma(tx) }
        if (isPermanent)
          await tx.$executeRaw`UPDATE job SET retry_limit = retry_count WHERE name = ${name} AND id = ${job.id}::uuid
            AND state = 'active' AND retry_count = ${job.retryCount}::int`
        const isMine = settled(await boss.fail(name, attemptOf(job), output, within)).length > 0
        if (isMine) await boss.deleteJob(name, job.id, within)
        return isMine
      })
    },
    async release({ name }, { id, retryCount }) {
      // pg-boss counts an attempt when it claims a job that has a start time, so this time is cleared.
      await db.prisma.$executeRaw`
        UPDATE job SET state = 'retry', started_on = NULL, heartbeat_on = NULL, start_after = now()
        WHERE name = ${name} AND id = ${id}::uuid AND state = 'active' AND retry_count = ${retryCount}::int`
    },
    async retryFailed(tx, id) {
      return (await boss.redrive(FAILED_JOBS, { ids: [id], db: fromPrisma(tx) })) > 0
    },
    async deleteFailed(tx, id) {
      return settled(await boss.deleteJob(FAILED_JOBS, id, { db: fromPrisma(tx) })).length > 0
    },
    async close() {
      await withdrawals.close()
      await boss.stop({ graceful: false }).catch((error) => options.onError(new Error(messageOf(error))))
    },
  }
}

/** Creates or upgrades the tables of jobs as their owner. Grants the rights to them to the user who performs jobs. */
async function createTables(
  { bossOptions }: Database,
  owner: JobOwner,
  onError: (error: Error) => void,
): Promise<void> {
  const pool = owner.openPool({ max: 1 })
  pool.on('error', onError)
  const boss = new PgBoss({
    ...bossOptions,
    db: { executeSql: (text, values) => pool.query(text, values) },
    supervise: false,
    schedule: false,
  })
  boss.on('error', onError)
  try {
    await boss.start()
    await owner.grantTables(pool)
  } finally {
    await boss.stop({ graceful: false }).catch(onError)
    await pool.end()
  }
}

/** Deletes jobs whose work is done, in batches. */
function createWithdrawals({ prisma }: Database) {
  const keys = new Map<string, Set<string>>()
  let timer: NodeJS.Timeout | undefined
  let deleting: Promise<unknown> = Promise.resolve()

  function deleteAll(): void {
    clearTimeout(timer)
    timer = undefined
    for (const [name, withdrawn] of keys) {
      const deleted = prisma.$executeRaw`
        DELETE FROM job WHERE name = ${name} AND singleton_key = ANY(${[...withdrawn]}::text[]) AND state = 'created'`
      // If a deletion fails, the job is performed and repeats its work.
      deleting = Promise.allSettled([deleting, deleted])
    }
    keys.clear()
  }

  return {
    add({ name }: Queue, key: string): void {
      keys.set(name, (keys.get(name) ?? new Set()).add(key))
      timer ??= setTimeout(deleteAll, WITHDRAWN_WITHIN_MS)
    },
    async close(): Promise<void> {
      deleteAll()
      await deleting
    },
  }
}

const attemptOf = ({ id, retryCount }: ClaimedJob) => ({ id, retryCount })

/**
 * Returns the ids of the jobs that a command has changed. The type that pg-boss declares for the response does not
 * contain them.
 */
function settled(response: object): string[] {
  return (response as { settled?: string[] }).settled ?? []
}

/** Creates missing queues, and updates those whose options have changed. */
async function createQueues(boss: PgBoss, isWorker: boolean): Promise<void> {
  const present = new Map((await boss.getQueues()).map((queue) => [queue.name, queue]))
  const changed: string[] = []
  const ensure = async (name: string, policy: string, options: Record<string, unknown>) => {
    const queue = present.get(name)
    if (queue === undefined) await boss.createQueue(name, { policy, ...options })
    else if (Object.entries(options).every(([key, value]) => queue[key as keyof typeof queue] === value)) return
    else await boss.updateQueue(name, options)
    changed.push(name)
  }
  await ensure(FAILED_JOBS, 'standard', { retentionSeconds: FAILED_JOBS_KEPT_SECONDS })
  for (const kind of JOB_KINDS) await ensure(kind.name, policyOf(kind), optionsOf(kind))
  if (isWorker && present.has(FORMER_QUEUE)) await boss.deleteAllJobs(FORMER_QUEUE)
  // Makes pg-boss load these queues now. If pg-boss loaded them for the first time within a transaction, it would wait
  // forever for PGlite's only connection.
  for (const name of changed) await boss.fetch(name, { batchSize: 1, minPriority: NEVER })
}
