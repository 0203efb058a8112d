import type { ClientsResult, FanoutClients } from './fanout-clients.ts'
import type { Published, Publisher } from './fanout-publisher.ts'
import type { FanoutServer, Load, SystemName } from './fanout-server.ts'
import { percentile } from './figures.ts'

/** A server sustains a rate if 99 of 100 messages arrive within this time. */
export const LONGEST_P99_MS = 100
/** How long to wait for the messages of a window after its last event. */
const GRACE_MS = 1500
const LONGEST_DRAIN_MS = 5000
const MARKED = 50
/** If the publisher is later than this, the publisher has reached its limit, not the server. */
const LATEST_PUBLISHER_MS = 50
const FIRST_MESSAGES_A_SECOND = 20_000
const STEP = 1.6
const MOST_TRIES = 2
const MOST_COLLECTIONS = 10
const SAME_HEAP = 0.001
const PACED_EVENTS_A_SECOND = 20

export interface Pace {
  windowMs: number
  pacedMs: number
  /** How many times to halve the step between the last sustained rate and the first rate that failed. */
  refinements: number
}

/** The results of one system with one load. */
export interface Measured extends Load {
  system: SystemName
  /** The highest total rate to all viewers at which p99 stayed within 100 ms. */
  messagesASecond: number
  /** Whether the publisher reached its limit before the server. The true rate is then higher. */
  isAtLeast: boolean
  /** CPU time of the serving process per message to one viewer, at the highest rate and at 20 events per second. */
  microsecondsOfCpu: number
  microsecondsOfCpuPaced: number
  /** Latency at 20 events per second, after warm-up. */
  p50: number
  p99: number
  /** Heap of the serving process per subscription, after garbage collection. */
  kibibytesOfSubscription: number
  bytesOfMessage: number
}

/** The processes of a measurement. */
export interface Stage {
  server: FanoutServer
  publisher: Publisher
  clients: FanoutClients
}

interface Window extends ClientsResult {
  /** The number of messages that all viewers together expect. */
  messages: number
  delays: number[]
  cpuSeconds: number
  seconds: number
  latestMs: number
  isWhole: boolean
}

/** Publishes events at a fixed rate, and records the latencies. */
export async function runWindow(stage: Stage, load: Load, eventsASecond: number, ms: number): Promise<Window> {
  const { server, publisher, clients } = stage
  const { feed } = server
  if (feed === null) throw new Error('this system cannot be published to')
  const events = Math.ceil((eventsASecond * ms) / 1000)
  const messages = (events * load.viewers) / load.spaces
  await clients.begin()
  const before = await server.ask({ type: 'usage' })
  const all = clients.all(messages, (events * 1000) / eventsASecond + GRACE_MS)
  const { payload, spaces } = load
  const published = await publisher.publish({ feed, payload, spaces, events, eventsASecond })
  const result = await all
  const after = await server.ask({ type: 'usage' })
  return {
    ...result,
    messages,
    delays: delaysOf(result, published, load),
    cpuSeconds: after.cpuSeconds - before.cpuSeconds,
    seconds: events / eventsASecond,
    latestMs: published.latestMs,
    isWhole: result.received >= messages && result.closed === 0,
  }
}

/** The milliseconds from the due time of an event to its arrival at a marked viewer. Missing messages count as infinite. */
function delaysOf({ arrivals }: ClientsResult, { dueAt }: Published, { spaces }: Load): number[] {
  return arrivals.flatMap(({ viewer, at }) => {
    const due = dueAt.filter((_, n) => n % spaces === viewer % spaces)
    return due.map((time, n) => (at[n] === undefined ? Number.POSITIVE_INFINITY : at[n] - time))
  })
}

const holds = ({ isWhole, delays }: Window) => isWhole && percentile(delays, 0.99) <= LONGEST_P99_MS

/** Returns the first rate to try, in events per second. */
const firstRateOf = ({ viewers, spaces }: Load) => Math.max(10, (FIRST_MESSAGES_A_SECOND * spaces) / viewers)

/** Raises the rate until the server no longer sustains it, and then searches between the last two rates. */
async function findHighestRate(stage: Stage, load: Load, { windowMs, refinements }: Pace) {
  let best: Window | null = null
  let isAtLeast = false
  let [low, high] = [0, Number.POSITIVE_INFINITY]
  let rate = firstRateOf(load)
  for (let left = refinements; rate >= 1; ) {
    const window = await tryRate(stage, load, rate, windowMs)
    if (holds(window)) {
      best = window
      low = rate
    } else {
      isAtLeast = window.latestMs > LATEST_PUBLISHER_MS
      if (!window.isDrained) return { best, isAtLeast }
      high = rate
    }
    if (high === Number.POSITIVE_INFINITY) rate *= STEP
    else if (low === 0) rate /= STEP
    else if (left === 0) break
    else {
      left -= 1
      rate = Math.sqrt(low * high)
    }
  }
  return { best, isAtLeast }
}

/** A rate fails only if it fails twice, because other load on the machine can spoil a window. */
async function tryRate(stage: Stage, load: Load, rate: number, ms: number): Promise<Window & { isDrained: boolean }> {
  for (let tries = 1; ; tries++) {
    const window = await runWindow(stage, load, rate, ms)
    // Returns whether all viewers are still connected and have received all messages in the end.
    const after = await stage.clients.all(window.messages, LONGEST_DRAIN_MS)
    const isDrained = after.received >= window.messages && after.closed === 0
    if (holds(window) || !isDrained || tries === MOST_TRIES) return { ...window, isDrained }
  }
}

/** Returns the heap in KiB once it is stable, because the memory of connections that open or close is freed gradually. */
async function heapOf(server: FanoutServer): Promise<number> {
  let last = Number.NaN
  for (let tries = 0; tries < MOST_COLLECTIONS; tries++) {
    const { heapKibibytes } = await server.ask({ type: 'usage', collect: true })
    if (Math.abs(heapKibibytes - last) < last * SAME_HEAP) return heapKibibytes
    last = heapKibibytes
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
  return last
}

/** Measures one system with one load. The viewers disconnect afterwards. */
export async function measure(stage: Stage, system: SystemName, load: Load, pace: Pace): Promise<Measured> {
  const { server, clients } = stage
  const subscribings = await server.viewers(load)
  const empty = await heapOf(server)
  await clients.open(subscribings, Math.min(MARKED, load.viewers))
  const full = await heapOf(server)
  const perEvent = load.viewers / load.spaces
  // Warms up a server, so that its code is compiled, and publishes one event in each space.
  await tryRate(stage, load, firstRateOf(load), pace.windowMs)
  await tryRate(stage, load, PACED_EVENTS_A_SECOND, pace.windowMs)
  const paced = await runWindow(stage, load, PACED_EVENTS_A_SECOND, pace.pacedMs)
  const { best, isAtLeast } = await findHighestRate(stage, load, pace)
  await clients.close()
  const rate = best === null ? 0 : best.received / best.seconds
  return {
    ...load,
    system,
    messagesASecond: rate,
    isAtLeast,
    microsecondsOfCpu: best === null ? Number.NaN : (best.cpuSeconds * 1e6) / best.received,
    microsecondsOfCpuPaced: (paced.cpuSeconds * 1e6) / (PACED_EVENTS_A_SECOND * paced.seconds * perEvent),
    p50: percentile(paced.delays, 0.5),
    p99: percentile(paced.delays, 0.99),
    kibibytesOfSubscription: (full - empty) / load.viewers,
    bytesOfMessage: paced.bytes / paced.received,
  }
}
