import { type EventLoopUtilization, performance } from 'node:perf_hooks'

export interface LoopPlacesOptions {
  /** The number of concurrent statements while the event loop has time to spare. */
  most: number
  /** The number of concurrent statements when it has none. */
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
 * Returns how many statements of requests to execute concurrently now. A statement's result is handled in the next turn of the event
 * loop, together with all others that have arrived: when the loop is busy, each further statement makes the turns
 * longer for everybody and finishes nothing sooner. The remaining statements wait in the queue of fair turns instead, where
 * requesters that use little go first. Runs and the server's own work are not limited so: the number of concurrent runs bounds
 * them, and with few places their writes to sockets would not be joined, which costs a run 2 ms.
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
