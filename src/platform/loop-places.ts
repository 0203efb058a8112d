import { type EventLoopUtilization, performance } from 'node:perf_hooks'

export interface LoopPlacesOptions {
  /** How many statements run concurrently while the event loop is not busy. */
  most: number
  /** How many statements run concurrently while the event loop is busy. */
  least?: number
  /** Returns a monotonic time in ms. The default is `performance.now`. */
  now?: () => number
  /** Returns the fraction of the time since the last call in which the event loop was busy, from 0 to 1. */
  busyShare?: () => number
}

const LEAST = 2
/** The minimum time between two adjustments. */
const LOOK_EVERY_MS = 50
const BUSY = 0.9
const IDLE_ENOUGH = 0.75

/**
 * Returns how many statements of requests may run concurrently now. The event loop handles a statement's result in its
 * next iteration, with all other results that have arrived. While the loop is busy, each additional statement only
 * makes the iterations longer for everybody. So the remaining statements wait in the queue of fair turns, where
 * requesters with little usage go first.
 *
 * Statements of runs and of the server itself are not counted. The number of concurrent runs limits them. With few
 * places, their writes to sockets would not be batched, which costs a run 2 ms.
 */
export function createLoopPlaces({
  most,
  least = Math.min(LEAST, most),
  now = () => performance.now(),
  busyShare = busyShareOfLoop(),
}: LoopPlacesOptions): () => number {
  let places = most
  let lookedAt = now()
  return () => {
    if (now() - lookedAt < LOOK_EVERY_MS) return places
    lookedAt = now()
    const share = busyShare()
    if (share > BUSY) places = Math.max(least, Math.floor(places / 2))
    else if (share < IDLE_ENOUGH) places = Math.min(most, places + 1)
    return places
  }
}

function busyShareOfLoop(): () => number {
  let before: EventLoopUtilization = performance.eventLoopUtilization()
  return () => {
    const current = performance.eventLoopUtilization()
    const { utilization } = performance.eventLoopUtilization(current, before)
    before = current
    return utilization
  }
}
