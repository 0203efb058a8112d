import { type EventLoopUtilization, performance } from 'node:perf_hooks'

export interface LoopPlacesOptions {
  /** The number of concurrent statements while the event loop is not busy. */
  most: number
  /** The number of concurrent statements while the event loop is busy. */
  least?: number
  /** Monotonic time in ms; `performance.now` by default. */
  now?: () => number
  /** Returns the share of the time since the last call in which the event loop was busy, from 0 to 1. */
  busyShare?: () => number
}

const LEAST = 2
/** The minimum time between two changes of the number. */
const LOOK_EVERY_MS = 50
const BUSY = 0.9
const IDLE_ENOUGH = 0.75

/**
 * Returns how many statements of requests may run concurrently at the moment. The event loop handles the result of a
 * statement in its next turn, together with all other results that have arrived. While the loop is busy, each
 * additional statement only makes the turns longer for everybody. The remaining statements therefore wait in the
 * queue of fair turns, where requesters that use little go first. Runs and the server's own work do not count: the
 * number of concurrent runs limits them, and with few places their writes to sockets would not be batched, which
 * costs a run 2 ms.
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
