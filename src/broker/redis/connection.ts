// Connections to Redis that reconnect forever, and calls over these connections that are retried.
import { type Cluster, Redis, type RedisOptions } from 'ioredis'
import { sleep } from '../../lib/async.ts'
import { messageOf } from '../../lib/errors.ts'
import type { RedisTarget } from '../../lib/redis-url.ts'
import { LogUnavailableError } from '../log.ts'
import type { BrokerLogger } from '../logger.ts'
import { createOutageLog, type RedisRole } from './outages.ts'
import { isRefusal, unusable } from './refusals.ts'
import { sentinelOptionsOf } from './sentinel.ts'

/**
 * How long connecting may take at startup. This leaves one second for the rest, because a startup without Redis
 * must fail within 5 s.
 */
export const START_TIMEOUT_MS = 4000
const CONNECT_TIMEOUT_MS = 2000
const WATCH_INTERVAL_MS = 5000

/**
 * A connection to one server, or to all masters of a cluster, that reconnects forever. While it is down, it does
 * not queue commands, and it never sends a command twice. A command whose response was lost rejects, and `call`
 * decides whether to retry.
 */
export interface RedisConnection extends RedisCalls {
  readonly redis: Redis | Cluster
  /**
   * Resolves once Redis has responded.
   * @throws if Redis has not responded within 4 s. The message is one line that mentions REDIS_URL and contains no
   * secret.
   */
  ready(): Promise<void>
  /** Whether every server responds within `timeoutMs`. */
  answers(timeoutMs: number): Promise<boolean>
  close(): void
}

/**
 * Returns the options of every connection to a target's servers. Each connection is named `parley-<role>` in CLIENT
 * LIST.
 */
export function optionsOf({ username, password, isTls, family }: RedisTarget, role: RedisRole): RedisOptions {
  return {
    ...(username === null ? {} : { username }),
    ...(password === null ? {} : { password }),
    ...(isTls ? { tls: {} } : {}),
    family,
    connectionName: `parley-${role}`,
    connectTimeout: CONNECT_TIMEOUT_MS,
    disconnectTimeout: 500,
    retryStrategy: (attempt) => Math.min(25 * attempt, 500),
    reconnectOnError: (error) => error.message.includes('READONLY'),
    // Parley queues, resends and resubscribes itself, because ioredis loses commands and subscriptions if a
    // connection breaks twice in a row.
    enableOfflineQueue: false,
    maxRetriesPerRequest: 0,
    autoResendUnfulfilledCommands: false,
    autoResubscribe: false,
  }
}

/** Opens a connection to one server: the server in the URL, or the master that its Sentinels report. */
export function openRedis(
  target: RedisTarget,
  role: RedisRole,
  logger: BrokerLogger,
  options: RedisOptions = {},
): RedisConnection & { readonly redis: Redis } {
  const stop = new AbortController()
  const outages = createOutageLog(role, logger, stop.signal)
  const [first] = target.nodes
  const redis = new Redis({
    ...optionsOf(target, role),
    ...(target.type === 'sentinel' ? sentinelOptionsOf(target) : first),
    db: target.database,
    reconnectOnError: outages.reconnectsOn,
    ...options,
  })
  redis.setMaxListeners(0)
  const startsUntil = Date.now() + START_TIMEOUT_MS
  outages.watch(redis)
  void breakWhatHangs(() => [redis], stop.signal)
  return {
    redis,
    ...createRedisCalls(redis, logger, stop.signal),
    async ready() {
      while (redis.status !== 'ready' && Date.now() < startsUntil && !isRefusal(outages.lastFault())) {
        await becomesReady(redis, startsUntil, stop.signal)
      }
      if (redis.status !== 'ready') throw unusable(target, outages.lastFault())
    },
    answers: (timeoutMs) => answersWithin(redis, timeoutMs),
    close() {
      stop.abort()
      redis.disconnect()
    },
  }
}

/**
 * Destroys open connections that do not respond because the peer has vanished or hangs. If they stayed open,
 * ioredis would wait forever for a response, and so would every later command.
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

/** How long a call waits for a response, including the time for a reconnect. */
export const CALL_TIMEOUT_MS = 5000
const RETRY_INTERVAL_MS = 50
const REFUSED_PAUSE_MS = 500

/** Calls Redis, with retries. */
export interface RedisCalls {
  /**
   * Retries the attempt until Redis responds, even across reconnects. Gives up after 5 s, or at `deadline` (in ms
   * of `Date.now`). The attempt must be idempotent.
   * @throws LogUnavailableError
   */
  call<T>(attempt: () => Promise<T>, deadline?: number): Promise<T>
  /**
   * Retries the attempt without a time limit while `isWanted` returns true, even if Redis refuses it.
   * @throws LogUnavailableError once `isWanted` returns false or the connection is closed
   */
  callUntilAnswered<T>(attempt: () => Promise<T>, isWanted: () => boolean): Promise<T>
}

export function createRedisCalls(redis: Redis | Cluster, logger: BrokerLogger, closed: AbortSignal): RedisCalls {
  async function call<T>(attempt: () => Promise<T>, deadline = Date.now() + CALL_TIMEOUT_MS): Promise<T> {
    for (;;) {
      if (closed.aborted) throw new LogUnavailableError('The connection to Redis is closed.')
      try {
        if (redis.status === 'ready')
          return await withTimeout(attempt(), Math.max(deadline - Date.now(), RETRY_INTERVAL_MS))
      } catch (error) {
        await pauseAfter(error)
      }
      if (Date.now() + RETRY_INTERVAL_MS > deadline) throw new LogUnavailableError('Redis did not respond in time.')
      await becomesReady(redis, deadline, closed)
    }
  }

  /** @throws RedisRefusesError for an error that a retry cannot resolve */
  async function pauseAfter(error: unknown): Promise<void> {
    if (!isPassing(error)) throw new RedisRefusesError(error)
    if (messageOf(error).includes('READONLY')) await sleep(REFUSED_PAUSE_MS, closed)
  }

  async function callUntilAnswered<T>(attempt: () => Promise<T>, isWanted: () => boolean): Promise<T> {
    let hasWarned = false
    for (;;) {
      try {
        return await call(attempt)
      } catch (error) {
        if (closed.aborted || !isWanted()) throw error
        if (!(error instanceof RedisRefusesError)) continue
        if (!hasWarned) logger.warn({ error: error.message }, 'a Redis call failed; buffering events in memory')
        hasWarned = true
        await sleep(REFUSED_PAUSE_MS, closed)
      }
    }
  }

  return { call, callUntilAnswered }
}

/**
 * Resolves when the connection becomes ready, reports an error or is closed, or at the deadline. If its status is
 * already `ready`, resolves after a short pause.
 */
export function becomesReady(redis: Redis | Cluster, deadline: number, closed: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer)
      redis.off('ready', done)
      redis.off('error', done)
      closed.removeEventListener('abort', done)
      resolve()
    }
    const timer = setTimeout(done, redis.status === 'ready' ? RETRY_INTERVAL_MS : Math.max(deadline - Date.now(), 0))
    redis.on('ready', done)
    redis.on('error', done)
    closed.addEventListener('abort', done)
  })
}

/** Settles like the promise. If the promise is still pending after `timeoutMs`, rejects with the message `words`. */
export function withTimeout<T>(promise: Promise<T>, timeoutMs: number, words = 'it does not respond'): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new TimeoutError(words)), timeoutMs)
    promise.then(
      (value) => {
        clearTimeout(timer)
        resolve(value)
      },
      (error) => {
        clearTimeout(timer)
        reject(error)
      },
    )
  })
}

/** Whether the connection responds to a ping within `timeoutMs`. */
async function answersWithin(redis: Redis, timeoutMs: number): Promise<boolean> {
  if (redis.status !== 'ready') return false
  return withTimeout(redis.ping(), timeoutMs).then(
    () => true,
    () => false,
  )
}

class TimeoutError extends Error {}

/** Redis returned an error that a retry cannot resolve. */
export class RedisRefusesError extends LogUnavailableError {
  constructor(cause: unknown) {
    super(`Redis refused the call: ${messageOf(cause)}`, { cause })
  }
}

/**
 * Whether an error is transient, such as a connection error, or an error from a server that is starting, failing
 * over or busy.
 */
function isPassing(error: unknown): boolean {
  if (!(error instanceof Error) || error instanceof TypeError) return false
  if (error.name !== 'ReplyError') return true
  return /LOADING|READONLY|MASTERDOWN|CLUSTERDOWN|MOVED|ASK|BUSY|TRYAGAIN|NOREPLICAS/.test(error.message)
}
