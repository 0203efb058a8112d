import type { Cluster, Redis } from 'ioredis'
import type { BrokerLogger } from '../logger.ts'

/** The use of a connection. */
export type RedisRole = 'commands' | 'subscriber'

/** A connection that breaks within this time after it was opened does not end the outage. */
const STEADY_MS = 5000
/** The minimum pause between two reconnects to a server that refuses writes. */
const READ_ONLY_PAUSE_MS = 2000

/** Logs the outages of a connection and their causes. */
export interface OutageLog {
  watch(redis: Redis | Cluster): void
  /** The last error of the connection; null once it is ready. */
  lastFault(): string | null
  /**
   * Whether ioredis should reconnect after this error. Returns true if a replica refused a write, because a
   * reconnect may reach the new master.
   */
  reconnectsOn(error: Error): boolean
}

/** Logs each outage once when it begins, with the reason, and once when the connection is stable again. */
export function createOutageLog(role: RedisRole, logger: BrokerLogger, signal: AbortSignal): OutageLog {
  let lastFault: string | null = null
  let sentinelFault: string | null = null
  let connected = false
  let connectedAt = 0
  /** The state that was logged last. */
  let reported: 'connected' | 'lost' | null = null
  /** Whether the last connection broke within `STEADY_MS`. */
  let isUnsteady = false
  let refusedAt = Number.NEGATIVE_INFINITY
  let steady: NodeJS.Timeout | undefined

  function report(state: 'connected' | 'lost', about: object = {}): void {
    if (reported === state) return
    reported = state
    if (state === 'lost') logger.warn({ connection: role, ...about }, 'lost the connection to Redis')
    else logger.info({ connection: role }, 'connected to Redis')
  }

  return {
    lastFault: () => lastFault,
    reconnectsOn(error) {
      if (!error.message.includes('READONLY') || performance.now() - refusedAt < READ_ONLY_PAUSE_MS) return false
      refusedAt = performance.now()
      lastFault = error.message
      return true
    },
    watch(redis) {
      redis.on('error', (error: Error) => {
        // ioredis reports "All sentinels are unreachable" even if a Sentinel responded with an error.
        const isOfSentinels = sentinelFault !== null && error.message.startsWith('All sentinels are unreachable')
        lastFault = isOfSentinels ? sentinelFault : error.message || (error as NodeJS.ErrnoException).code || error.name
      })
      redis.on('sentinelError', (error: Error) => {
        sentinelFault = error.message
      })
      redis.on('close', () => {
        clearTimeout(steady)
        if (!connected || signal.aborted) return
        connected = false
        isUnsteady = performance.now() - connectedAt < STEADY_MS
        report('lost', { error: lastFault ?? 'Redis closed the connection' })
      })
      redis.on('ready', () => {
        connected = true
        connectedAt = performance.now()
        lastFault = null
        if (isUnsteady) steady = setTimeout(() => report('connected'), STEADY_MS).unref()
        else report('connected')
      })
    },
  }
}
