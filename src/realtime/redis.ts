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

/** The start gives up before the 5 s that it is given. */
export const START_TIMEOUT_MS = 4000
const CONNECT_TIMEOUT_MS = 2000
const WATCH_INTERVAL_MS = 5000

/**
 * A connection that reconnects for ever: to one server, or to all masters of a cluster. Nothing is queued while it is away
 * and nothing is sent again by itself: a command whose answer was lost rejects, and `call` decides.
 */
export interface RedisConnection extends RedisCalls {
  readonly redis: Redis | Cluster
  /** Resolves once Redis has answered. @throws with one line that names REDIS_URL and no secret, 4 s after it was opened. */
  ready(): Promise<void>
  /** Whether all of Redis answers within `timeoutMs`. */
  answers(timeoutMs: number): Promise<boolean>
  close(): void
}

export type RedisRole = 'commands' | 'subscriber'

/** How every connection is opened; its name is `parley-<role>`, as CLIENT LIST shows it. */
export function optionsOf(role: RedisRole): RedisOptions {
  return {
    connectionName: `parley-${role}`,
    connectTimeout: CONNECT_TIMEOUT_MS,
    disconnectTimeout: 500,
    retryStrategy: (attempt) => Math.min(25 * attempt, 500),
    reconnectOnError: (error) => error.message.includes('READONLY'),
    // What ioredis would queue, resend or subscribe to again, we do: it forgets some of it when a connection breaks twice.
    enableOfflineQueue: false,
    maxRetriesPerRequest: 0,
    autoResendUnfulfilledCommands: false,
    autoResubscribe: false,
  }
}

/** Opens a connection to one server, by its URL or its place. */
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

/** Says once that the connection is lost, and once that it is back. */
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
 * Breaks connections over which nothing comes any more although they stand: a peer that vanished, a server that hangs.
 * ioredis would wait for ever, and everything behind the unanswered command with it.
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
