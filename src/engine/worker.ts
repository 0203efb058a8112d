import { createBell, sleep } from '../lib/async.ts'
import { messageOf } from '../lib/errors.ts'
import type { ClaimedJob, WakeUp } from '../platform/jobs.ts'
import type { Platform } from '../platform/platform.ts'
import { JOBS_CHANNEL } from '../realtime/topics.ts'
import type { Lifecycle } from '../runs/lifecycle.ts'
import type { Cycles } from './cycle.ts'
import type { AbortReason, Executor, Place } from './execute-run.ts'

/** What a job asks for, other than a run or a think cycle. */
export type WakeUpHandlers = {
  [T in Exclude<WakeUp['type'], 'run' | 'cycle'>]: (wakeUp: Extract<WakeUp, { type: T }>) => Promise<void>
}

export interface Worker {
  /** Takes no new work, gives what runs `graceMs` to finish, and hands the rest back to the queue. */
  drain(graceMs: number): Promise<void>
}

interface WorkerParts {
  lifecycle: Lifecycle
  cycles: Cycles
  executor: Executor
  handlers: WakeUpHandlers
  /** What is looked after every few seconds: what a process that died left behind. */
  sweeps: (() => Promise<void>)[]
}

const POLL_MS = 1000
/** Between two looks at the queue: what a single run waits longer, at most, a thousand are served faster. */
const SHORTEST_PAUSE_MS = 4
const TOUCH_MS = 3000
const SWEEP_MS = 10_000
/** How long a job waits whose agent executes as many runs as it may. */
const BUSY_MS = 500

/** Claims jobs as long as there is room, woken by the signal of new work and once a second; keeps their leases alive. */
export async function createWorker(
  platform: Platform,
  { lifecycle, cycles, executor, handlers, sweeps }: WorkerParts,
): Promise<Worker> {
  const { jobs, db, signals, logger, config } = platform
  const bell = createBell()
  const stopping = new AbortController()
  const handBack = new AbortController()
  const active = new Map<string, { job: ClaimedJob; work: Promise<void> }>()
  const done: ClaimedJob[] = []
  let aside = 0
  const unsubscribe = await signals.subscribe(JOBS_CHANNEL, () => bell.ring())

  /** A run that waits for a reply counts no more, or those who would answer could not start. */
  function place(): Place {
    return {
      giveBack() {
        aside++
        bell.ring()
      },
      takeAgain() {
        aside--
      },
    }
  }

  async function handle(job: ClaimedJob): Promise<'done' | 'handed-back'> {
    const { wakeUp } = job
    if (wakeUp.type !== 'run' && wakeUp.type !== 'cycle') {
      const handler = handlers[wakeUp.type] as (wakeUp: WakeUp) => Promise<void>
      await handler(wakeUp)
      return 'done'
    }
    const result =
      wakeUp.type === 'run' ? await lifecycle.claim(wakeUp.runId, job.id) : await cycles.claim(wakeUp.agentId, job.id)
    if (result.type === 'claimed') return executor.execute(result.claim, place(), handBack.signal)
    if (result.type === 'busy')
      await db.transaction((tx) => jobs.enqueue(tx, [{ wakeUp, at: new Date(Date.now() + BUSY_MS) }]))
    return 'done'
  }

  async function work(job: ClaimedJob): Promise<void> {
    try {
      if ((await handle(job)) === 'done') done.push(job)
      else await jobs.release(job)
    } catch (error) {
      logger.error({ job: job.wakeUp, error: messageOf(error) }, 'a job failed; it is tried again')
      await sleep(POLL_MS, stopping.signal)
      await jobs.release(job).catch(() => {})
    } finally {
      active.delete(job.id)
      bell.ring()
    }
  }

  /** Jobs that end while one statement is under way are completed by the next, together. */
  async function completeDone(): Promise<void> {
    const batch = done.splice(0)
    await jobs.complete(batch).catch((error) => {
      logger.warn({ error: messageOf(error) }, 'jobs could not be completed yet')
      done.push(...batch)
    })
  }

  async function claimWhilePossible(): Promise<void> {
    for (;;) {
      const room = config.workerConcurrency - active.size + aside
      if (room <= 0 || stopping.signal.aborted) return
      const claimed = await jobs.claim(room)
      for (const job of claimed) active.set(job.id, { job, work: work(job) })
      if (claimed.length === 0) return
    }
  }

  async function claimLoop(): Promise<void> {
    let lookedAt = 0
    while (!stopping.signal.aborted) {
      try {
        if (done.length > 0) await completeDone()
        await claimWhilePossible()
      } catch (error) {
        logger.warn({ error: messageOf(error) }, 'the queue cannot be reached; trying again')
        await sleep(POLL_MS, stopping.signal)
      }
      if (done.length === 0) await bell.wait(POLL_MS, stopping.signal)
      // Many bells in a burst are answered by one look.
      await sleep(Math.max(0, lookedAt + SHORTEST_PAUSE_MS - Date.now()))
      lookedAt = Date.now()
    }
  }

  async function every(intervalMs: number, what: string, task: () => Promise<void>): Promise<void> {
    while (!ended.signal.aborted) {
      await sleep(intervalMs, ended.signal)
      await task().catch((error) => logger.warn({ error: messageOf(error) }, `${what} failed`))
    }
  }

  const ended = new AbortController()
  const loop = claimLoop()
  const upkeep = [
    every(TOUCH_MS, 'keeping leases', () => jobs.touch([...active.values()].map(({ job }) => job))),
    ...sweeps.map((sweep) => every(SWEEP_MS, 'tidying up', sweep)),
  ]

  return {
    async drain(graceMs) {
      stopping.abort()
      bell.ring()
      await loop
      const working = Promise.all([...active.values()].map(({ work }) => work))
      await Promise.race([working, sleep(graceMs)])
      handBack.abort('handed-back' satisfies AbortReason)
      await working
      await completeDone()
      ended.abort()
      await Promise.all(upkeep)
      unsubscribe()
    },
  }
}
