// Opens the event log and the signals: in Redis if a URL is given, otherwise in this process.
import type { Cluster, Redis } from 'ioredis'
import type { Registry } from 'prom-client'
import { gauge } from '../lib/metrics.ts'
import type { EventLog } from './log.ts'
import type { BrokerLogger } from './logger.ts'
import { createMemoryLog } from './memory/log.ts'
import { createMemorySignals } from './memory/signals.ts'
import type { Signals } from './signals.ts'

export interface BrokerOptions {
  /** The URL of Redis. If absent, events and signals stay in this process. */
  redisUrl?: string | null | undefined
  /** The prefix of all keys and channels in Redis. Deployments that share a Redis must use different prefixes. */
  prefix?: string
  logger?: BrokerLogger
  metrics?: Registry
  /** How long a write waits for Redis before it is deferred. */
  patienceMs?: number
}

export interface SharedRedis {
  redis: Redis | Cluster
  prefix: string
}

export interface Broker {
  log: EventLog
  signals: Signals
  /** The Redis that all processes share, and its key prefix; null if there is only this process. */
  shared: SharedRedis | null
  /** Whether events and signals can be published now. Resolves within 1 s. */
  healthy(): Promise<boolean>
  close(): Promise<void>
}

/** How long a write waits for Redis. Mutations must respond within 250 ms, whether or not Redis is reachable. */
const PATIENCE_MS = 150
const SILENT: BrokerLogger = { info: () => {}, warn: () => {} }

/**
 * Opens the event log and the signals, either in this process or in Redis. In Redis, they use one connection for
 * commands and one for subscriptions.
 * @throws within 5 s if Redis cannot be reached, and at once if Redis refuses a required command. The message is
 * one line that mentions REDIS_URL and contains no secret.
 */
export async function createBroker(options: BrokerOptions = {}): Promise<Broker> {
  const { redisUrl, prefix = 'parley:', logger = SILENT, patienceMs = PATIENCE_MS } = options
  if (!redisUrl) {
    const log = createMemoryLog()
    const signals = createMemorySignals(logger)
    return toBroker({ log, signals, shared: null }, () => {})
  }
  // The Redis client is loaded only when needed, which saves memory in an embedded server without Redis.
  const { openRedisBroker } = await import('./redis/broker.ts')
  const opened = await openRedisBroker({ url: redisUrl, prefix, logger, patienceMs })
  const { log, signals, redis, close } = opened
  if (options.metrics !== undefined) measure(options.metrics, opened)
  return toBroker({ log, signals, shared: { redis, prefix } }, close)
}

function measure(metrics: Registry, { isAway, waiting }: { isAway(): boolean; waiting(): number }): void {
  const isAwayNow = () => Number(isAway())
  gauge(
    metrics,
    'parley_redis_away',
    '1 while Redis is unreachable and this process buffers events in memory, otherwise 0.',
    isAwayNow,
  )
  gauge(metrics, 'parley_redis_waiting', 'Writes to Redis that this process has buffered in memory.', waiting)
}

function toBroker(
  { log, signals, shared }: Pick<Broker, 'log' | 'signals' | 'shared'>,
  closeConnections: () => void,
): Broker {
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
