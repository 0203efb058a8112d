import { JOBS_CHANNEL } from '../broker/topics.ts'
import type { Cycles } from '../context/cycle.ts'
import type { Lifecycle } from '../flows/lifecycle.ts'
import { createBell, sleep } from '../lib/async.ts'
import { messageOf } from '../lib/errors.ts'
import type { Platform } from '../platform/platform.ts'
import type { Claim } from '../runs/claiming.ts'
import type { Executor, Place } from './execute-run.ts'

export interface Worker {
  /** Wakes the worker to look for work. */
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
 * With at least this many active runs, the worker waits before each claim, so that one statement claims more runs. It
 * waits as long as the last claim took, within the limits `GATHERING_MS`. A claim costs nearly as much for one run as
 * for ten: 3 ms in the embedded database.
 */
const MANY = 4
const GATHERING_MS = { least: 3, most: 25 }
/** The maximum pause after an error or a lock conflict. After each further lock conflict, the pause is doubled. */
const LONGEST_PAUSE_MS = 1000
/** The maximum pause without a wake-up. The upkeep also wakes the worker when work is due. */
const FOR_LONG_MS = 60_000

/**
 * Claims runs and inboxes while slots are free. Looks for them when the worker is woken and when a signal announces new
 * work.
 */
export async function createWorker(platform: Platform, { lifecycle, cycles, executor }: WorkerParts): Promise<Worker> {
  const { signals, logger, config, conductor } = platform
  const bell = createBell()
  const stopping = new AbortController()
  const handBack = new AbortController()
  const active = new Set<Promise<void>>()
  let aside = 0
  /**
   * Whether the last claim left work because no slot was free. In this case, the next claim follows as soon as a slot
   * is free.
   */
  let isPlaceWanted = true
  let isPlaceFree = false
  const unsubscribe = await signals.subscribe(JOBS_CHANNEL, () => bell.ring())

  function placeIsFree(): void {
    isPlaceFree = true
    if (isPlaceWanted) bell.ring()
  }

  /** Returns a slot for a run. A run that waits for a reply frees its slot, because the runs that reply may need it. */
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
   * Claims while there is work and a free slot. Returns the time in ms until the next claim without a wake-up: twice
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
      // One claim serves many wake-ups of a burst. With few active runs, the first wake-up is served at once.
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
