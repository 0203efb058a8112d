import type { Cluster, Redis } from 'ioredis'
import type { Registry } from 'prom-client'
import { gauge } from '../lib/metrics.ts'
import type { EventLog } from './event-log.ts'
import { createInProcessEventLog } from './in-process-event-log.ts'
import { createInProcessSignals } from './in-process-signals.ts'
import type { RealtimeLogger } from './logger.ts'
import type { Signals } from './signals.ts'

export interface RealtimeOptions {
  /** Without it everything stays in this process. */
  redisUrl?: string | null | undefined
  /** Begins every key and channel in Redis: deployments that share one need different ones. */
  prefix?: string
  logger?: RealtimeLogger
  metrics?: Registry
  /** How long whoever tells something waits for Redis before it is deferred. */
  patienceMs?: number
}

export interface SharedRedis {
  redis: Redis | Cluster
  prefix: string
}

export interface Realtime {
  log: EventLog
  signals: Signals
  /** The Redis that all processes share, and how keys begin there; null where there is one process. */
  shared: SharedRedis | null
  /** Whether events and signals go through now; answers within 1 s. */
  healthy(): Promise<boolean>
  close(): Promise<void>
}

/** A mutation is to answer within 250 ms, whether Redis does or not. */
const PATIENCE_MS = 150
const SILENT: RealtimeLogger = { info: () => {}, warn: () => {} }

/**
 * Opens the event log and the signals: in Redis, over one connection for commands and one for subscriptions, or in this
 * process. @throws within 5 s, with one line that names REDIS_URL and holds no secret, where Redis cannot be used.
 */
export async function createRealtime(options: RealtimeOptions = {}): Promise<Realtime> {
  const { redisUrl, prefix = 'parley:', logger = SILENT, patienceMs = PATIENCE_MS } = options
  if (!redisUrl) {
    const log = createInProcessEventLog()
    const signals = createInProcessSignals(logger)
    return realtimeOf({ log, signals, shared: null }, () => {})
  }
  // Its libraries are loaded where they are used only: megabytes that an embedded server is without.
  const { openRedisRealtime } = await import('./redis-realtime.ts')
  const opened = await openRedisRealtime({ url: redisUrl, prefix, logger, patienceMs })
  const { log, signals, redis, close } = opened
  if (options.metrics !== undefined) measure(options.metrics, opened)
  return realtimeOf({ log, signals, shared: { redis, prefix } }, close)
}

function measure(metrics: Registry, { isAway, waiting }: { isAway(): boolean; waiting(): number }): void {
  const isAwayNow = () => Number(isAway())
  gauge(
    metrics,
    'parley_redis_away',
    '1 while Redis is unreachable and this process buffers events in memory, else 0.',
    isAwayNow,
  )
  gauge(metrics, 'parley_redis_waiting', 'Writes to Redis that this process has buffered in memory.', waiting)
}

function realtimeOf(
  { log, signals, shared }: Pick<Realtime, 'log' | 'signals' | 'shared'>,
  closeConnections: () => void,
): Realtime {
  return {
    log,
    signals,
    shared,
    healthy: () => log.healthy(),
    async close() {
      await log.close()
      await signals.close()
      closeConnections()
    },
  }
}
