import { createBell, sleep } from '../lib/async.ts'
import { messageOf } from '../lib/errors.ts'
import type { Cycles } from '../minds/cycle.ts'
import type { Platform } from '../platform/platform.ts'
import { JOBS_CHANNEL } from '../realtime/topics.ts'
import type { Claim } from '../runs/claiming.ts'
import type { Lifecycle } from '../runs/lifecycle.ts'
import type { Executor, Place } from './execute-run.ts'

export interface Worker {
  /** Claims what there is room for: to be called when there may be something. */
  ring(): void
  /** Takes no new work, gives what runs `graceMs` to finish, and gives the rest back. */
  drain(graceMs: number): Promise<void>
}

interface WorkerParts {
  lifecycle: Pick<Lifecycle, 'claim'>
  cycles: Cycles
  executor: Executor
}

/** Between two looks at what can be claimed: what a single run waits longer, at most, a thousand are served faster. */
const SHORTEST_PAUSE_MS = 4
/** Beside so many that are at work here, what comes within this time is claimed, and read, together. */
const MANY = 4
const GATHERING_MS = 3
/** After something that another transaction had in hand, twice as long each time; and after a fault. */
const LONGEST_PAUSE_MS = 1000
/** Until a bell, which whoever looks for what is due rings too. */
const FOR_LONG_MS = 60_000

/** Claims runs and inboxes from their rows while there is room, whenever its bell rings; the signal of new work rings it too. */
export async function createWorker(platform: Platform, { lifecycle, cycles, executor }: WorkerParts): Promise<Worker> {
  const { signals, logger, config } = platform
  const bell = createBell()
  const stopping = new AbortController()
  const handBack = new AbortController()
  const active = new Set<Promise<void>>()
  let aside = 0
  /** What the last look has left for want of a place is looked at again when a place is free; else there is nothing to look for. */
  let isPlaceWanted = true
  let isPlaceFree = false
  const unsubscribe = await signals.subscribe(JOBS_CHANNEL, () => bell.ring())

  function placeIsFree(): void {
    isPlaceFree = true
    if (isPlaceWanted) bell.ring()
  }

  /** A run that waits for a reply counts no more, or those who would answer could not start. */
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

  /** Answers with the milliseconds after which another look is worth it, bell or no bell: twice `pauseMs`, or Infinity. */
  async function claimWhilePossible(pauseMs: number): Promise<number> {
    for (;;) {
      const room = config.workerConcurrency - active.size + aside
      isPlaceWanted = true
      isPlaceFree = false
      if (room <= 0 || stopping.signal.aborted) return Number.POSITIVE_INFINITY
      const { claims, inboxes, isMoreThere, isLeft } = await lifecycle.claim(room)
      isPlaceWanted = isLeft === true || isMoreThere || claims.length + inboxes.length >= room
      claims.forEach(begin)
      await Promise.all(inboxes.map(beginCycle))
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
      pauseMs = Number.isFinite(nextMs) ? nextMs : SHORTEST_PAUSE_MS
      await bell.wait(Math.min(nextMs, FOR_LONG_MS), stopping.signal)
      // Many bells in a burst are answered by one look. Where there is little to do, the first one is answered at once.
      const restMs = Math.max(lookedAt + SHORTEST_PAUSE_MS - Date.now(), active.size < MANY ? 0 : GATHERING_MS)
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
