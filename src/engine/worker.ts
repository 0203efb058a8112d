import { JOBS_CHANNEL } from '../broker/topics.ts'
import type { Cycles } from '../context/cycle.ts'
import type { Lifecycle } from '../flows/lifecycle.ts'
import { createBell, sleep } from '../lib/async.ts'
import { messageOf } from '../lib/errors.ts'
import type { Platform } from '../platform/platform.ts'
import type { Claim } from '../runs/claiming.ts'
import type { Executor, Place } from './execute-run.ts'

export interface Worker {
  /** Wakes the worker, because there may be work to claim. */
  ring(): void
  /** Stops claiming work, waits up to `graceMs` for active runs, and releases the rest. */
  drain(graceMs: number): Promise<void>
}

interface WorkerParts {
  lifecycle: Pick<Lifecycle, 'claim'>
  cycles: Cycles
  executor: Executor
}

/**
 * The minimum pause between two claims. It delays a run by at most this time, and lets one statement claim many runs.
 */
const SHORTEST_PAUSE_MS = 4
/**
 * From this number of active runs on, the worker waits before each claim for as long as the last claim took, within
 * `GATHERING_MS`, so that one statement claims more runs. A claim costs nearly as much for one run as for ten: 3 ms in
 * the embedded database.
 */
const MANY = 4
const GATHERING_MS = { least: 3, most: 25 }
/** The maximum pause after a lock conflict, where the pause doubles each time, or after an error. */
const LONGEST_PAUSE_MS = 1000
/** The maximum pause without a wake-up. The poller for due work also wakes the worker. */
const FOR_LONG_MS = 60_000

/**
 * Claims runs and inboxes from their rows while slots are free, whenever the worker is woken or a signal announces new
 * work.
 */
export async function createWorker(platform: Platform, { lifecycle, cycles, executor }: WorkerParts): Promise<Worker> {
  const { signals, logger, config, conductor } = platform
  const bell = createBell()
  const stopping = new AbortController()
  const handBack = new AbortController()
  const active = new Set<Promise<void>>()
  let aside = 0
  /** Whether the last claim left work because no slot was free. If so, claim again as soon as a slot is free. */
  let isPlaceWanted = true
  let isPlaceFree = false
  const unsubscribe = await signals.subscribe(JOBS_CHANNEL, () => bell.ring())

  function placeIsFree(): void {
    isPlaceFree = true
    if (isPlaceWanted) bell.ring()
  }

  /**
   * Returns the slot of a run. A run that waits for a reply gives its slot back, because otherwise the runs that would
   * reply might not start.
   */
  function place(): Place {
    return {
      giveBack() {
        aside++
        placeIsFree()
      },
      takeAgain() {
        aside--
      },
    }
  }

  function begin(claim: Claim): void {
    const work = executor.execute(claim, place(), handBack.signal).finally(() => {
      active.delete(work)
      placeIsFree()
    })
    active.add(work)
  }

  async function beginCycle(agentId: string): Promise<void> {
    const claim = await cycles.claim(agentId)
    if (claim !== null) begin(claim)
  }

  /**
   * Claims while there is work and a free slot. Returns the milliseconds until the next claim without a wake-up: twice
   * `pauseMs`, or Infinity.
   */
  async function claimWhilePossible(pauseMs: number): Promise<number> {
    for (;;) {
      const room = config.workerConcurrency - active.size + aside
      isPlaceWanted = true
      isPlaceFree = false
      if (room <= 0 || stopping.signal.aborted) return Number.POSITIVE_INFINITY
      const { claims, inboxes, isMoreThere, isLeft } = await lifecycle.claim(room)
      isPlaceWanted = isLeft === true || isMoreThere || claims.length + inboxes.length >= room
      claims.forEach(begin)
      await Promise.all(inboxes.filter((agentId) => conductor?.mayThink(agentId) !== false).map(beginCycle))
      if (isPlaceWanted && (claims.length > 0 || isPlaceFree)) continue
      return isMoreThere ? Math.min(LONGEST_PAUSE_MS, 2 * pauseMs) : Number.POSITIVE_INFINITY
    }
  }

  async function claimLoop(): Promise<void> {
    let pauseMs = SHORTEST_PAUSE_MS
    while (!stopping.signal.aborted) {
      const lookedAt = Date.now()
      const nextMs = await claimWhilePossible(pauseMs).catch((error) => {
        logger.warn({ error: messageOf(error) }, 'could not claim runs; retrying')
        return LONGEST_PAUSE_MS
      })
      const tookMs = Date.now() - lookedAt
      pauseMs = Number.isFinite(nextMs) ? nextMs : SHORTEST_PAUSE_MS
      await bell.wait(Math.min(nextMs, FOR_LONG_MS), stopping.signal)
      // Let one claim serve many wake-ups of a burst. With few active runs, serve the first wake-up at once.
      const gatheringMs = Math.min(Math.max(GATHERING_MS.least, tookMs), GATHERING_MS.most)
      const restMs = Math.max(lookedAt + SHORTEST_PAUSE_MS - Date.now(), active.size < MANY ? 0 : gatheringMs)
      if (restMs > 0) await sleep(restMs)
    }
  }

  const loop = claimLoop()

  return {
    ring: () => bell.ring(),
    async drain(graceMs) {
      stopping.abort()
      await loop
      const working = Promise.all(active)
      await Promise.race([working, sleep(graceMs)])
      handBack.abort('handed-back')
      await working
      unsubscribe()
    },
  }
}
