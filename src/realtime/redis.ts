import { type Cluster, Redis, type RedisOptions } from 'ioredis'
import { sleep } from '../lib/async.ts'
import type { RealtimeLogger } from './logger.ts'
import {
  answersWithin,
  becomesReady,
  createRedisCalls,
  isRefusal,
  type RedisCalls,
  withTimeout,
} from './redis-calls.ts'

/** The start must fail within 5 s. */
export const START_TIMEOUT_MS = 4000
const CONNECT_TIMEOUT_MS = 2000
const WATCH_INTERVAL_MS = 5000

/**
 * A connection that reconnects without end: to one server, or to all masters of a cluster. It queues nothing
 * while it is down and resends nothing: a command whose response was lost rejects, and `call` decides whether
 * to retry.
 */
export interface RedisConnection extends RedisCalls {
  readonly redis: Redis | Cluster
  /**
   * Resolves once Redis has responded. @throws 4 s after it was opened, with one line that names REDIS_URL
   * and contains no secret
   */
  ready(): Promise<void>
  /** Whether every server responds within `timeoutMs`. */
  answers(timeoutMs: number): Promise<boolean>
  close(): void
}

export type RedisRole = 'commands' | 'subscriber'

/** The options of every connection. Its name in CLIENT LIST is `parley-<role>`. */
export function optionsOf(role: RedisRole): RedisOptions {
  return {
    connectionName: `parley-${role}`,
    connectTimeout: CONNECT_TIMEOUT_MS,
    disconnectTimeout: 500,
    retryStrategy: (attempt) => Math.min(25 * attempt, 500),
    reconnectOnError: (error) => error.message.includes('READONLY'),
    // We queue, resend and resubscribe ourselves: ioredis loses some of it if a connection breaks twice.
    enableOfflineQueue: false,
    maxRetriesPerRequest: 0,
    autoResendUnfulfilledCommands: false,
    autoResubscribe: false,
  }
}

/** Opens a connection to one server, by its URL or by host and port. */
export function openRedis(
  url: string | null,
  role: RedisRole,
  logger: RealtimeLogger,
  options: RedisOptions = {},
): RedisConnection & { readonly redis: Redis } {
  const all = { ...optionsOf(role), ...options }
  const redis = url === null ? new Redis(all) : new Redis(url, all)
  redis.setMaxListeners(0)
  const stop = new AbortController()
  const startsUntil = Date.now() + START_TIMEOUT_MS
  const { lastFault } = reportOutages(redis, role, logger, stop.signal)
  void breakWhatHangs(() => [redis], stop.signal)
  return {
    redis,
    ...createRedisCalls(redis, logger, stop.signal),
    async ready() {
      while (redis.status !== 'ready' && Date.now() < startsUntil && !isRefusal(lastFault())) {
        await becomesReady(redis, startsUntil, stop.signal)
      }
      if (redis.status === 'ready') return
      const { host, port } = redis.options
      throw new Error(`REDIS_URL: Redis at ${host}:${port} cannot be used: ${lastFault() ?? 'it does not respond'}`)
    },
    answers: (timeoutMs) => answersWithin(redis, timeoutMs),
    close() {
      stop.abort()
      redis.disconnect()
    },
  }
}

/** Logs once when the connection is lost, and once when it is restored. */
export function reportOutages(redis: Redis | Cluster, role: RedisRole, logger: RealtimeLogger, signal: AbortSignal) {
  let lastFault: string | null = null
  let connected = false
  redis.on('error', (error: Error) => {
    lastFault = error.message || (error as NodeJS.ErrnoException).code || error.name
  })
  redis.on('close', () => {
    if (!connected || signal.aborted) return
    connected = false
    logger.warn({ connection: role, error: lastFault }, 'lost the connection to Redis')
  })
  redis.on('ready', () => {
    logger.info({ connection: role }, 'connected to Redis')
    connected = true
    lastFault = null
  })
  return { lastFault: () => lastFault }
}

/**
 * Destroys connections that are open and do not respond: the peer vanished or hangs. ioredis would wait
 * without end, together with every later command.
 */
export async function breakWhatHangs(connections: () => Redis[], signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    const all = connections().map((redis) => ({ redis, status: redis.status, stream: redis.stream }))
    await Promise.all(
      all.map(async ({ redis, status, stream }) => {
        if (status !== 'ready') return
        await withTimeout(redis.ping(), WATCH_INTERVAL_MS).catch(() => {
          if (redis.stream === stream && redis.status === 'ready') stream.destroy()
        })
      }),
    )
    await sleep(WATCH_INTERVAL_MS, signal)
    for (const { redis, status, stream } of all)
      if (status === 'connect' && redis.status === 'connect' && redis.stream === stream) stream.destroy()
  }
}
