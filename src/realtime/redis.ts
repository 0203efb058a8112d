import { Redis, type RedisOptions } from 'ioredis'
import { sleep } from '../lib/async.ts'
import { messageOf } from '../lib/errors.ts'
import { LogUnavailableError } from './event-log.ts'
import type { RealtimeLogger } from './logger.ts'

/** How long a call waits for an answer, and for a lost Redis to come back. */
export const CALL_TIMEOUT_MS = 5000
/** The start gives up before the 5 s that it is given. */
const START_TIMEOUT_MS = 4000
const CONNECT_TIMEOUT_MS = 2000
const WATCH_INTERVAL_MS = 5000
const RETRY_INTERVAL_MS = 50
const REFUSED_PAUSE_MS = 500

/**
 * One connection that reconnects for ever. Nothing is queued while it is away and nothing is sent again by itself: a
 * command whose answer was lost rejects, and `call` decides.
 */
export interface RedisConnection {
  readonly redis: Redis
  /** Resolves once Redis has answered. @throws with one line that names REDIS_URL and no secret, after 4 s. */
  ready(): Promise<void>
  /**
   * Tries until there is an answer, also over lost connections, for 5 s or until `deadline` (in ms of `Date.now`). What is
   * tried must be safe to run twice.
   * @throws LogUnavailableError
   */
  call<T>(attempt: () => Promise<T>, deadline?: number): Promise<T>
  /**
   * The same for as long as it takes, also where Redis refuses, while it `isWanted`.
   * @throws LogUnavailableError when it is not wanted any more, or the connection is closed.
   */
  callUntilAnswered<T>(attempt: () => Promise<T>, isWanted: () => boolean): Promise<T>
  /** Whether Redis answers within `timeoutMs`. */
  answers(timeoutMs: number): Promise<boolean>
  close(): void
}

/** Opens a connection named `parley-<role>`, as CLIENT LIST shows it. */
export function openRedis(
  url: string,
  role: 'commands' | 'subscriber',
  logger: RealtimeLogger,
  options: RedisOptions = {},
): RedisConnection {
  const redis = new Redis(url, {
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
    ...options,
  })
  redis.setMaxListeners(0)
  const stop = new AbortController()
  const { lastFault } = reportOutages(redis, role, logger, stop.signal)
  void watch(redis, stop.signal)

  async function call<T>(attempt: () => Promise<T>, deadline = Date.now() + CALL_TIMEOUT_MS): Promise<T> {
    for (;;) {
      if (stop.signal.aborted) throw new LogUnavailableError('The connection to Redis is closed.')
      try {
        if (redis.status === 'ready') return await within(attempt(), Math.max(deadline - Date.now(), RETRY_INTERVAL_MS))
      } catch (error) {
        if (!isPassing(error)) throw new RedisRefusesError(error)
      }
      if (Date.now() + RETRY_INTERVAL_MS > deadline) throw new LogUnavailableError('Redis does not answer.')
      await becomesReady(redis, deadline, stop.signal)
    }
  }

  async function callUntilAnswered<T>(attempt: () => Promise<T>, isWanted: () => boolean): Promise<T> {
    let told = false
    for (;;) {
      try {
        return await call(attempt)
      } catch (error) {
        if (stop.signal.aborted || !isWanted()) throw error
        if (!(error instanceof RedisRefusesError)) continue
        if (!told) logger.warn({ error: error.message }, 'what is to be told waits in this process')
        told = true
        await sleep(REFUSED_PAUSE_MS, stop.signal)
      }
    }
  }

  return {
    redis,
    call,
    callUntilAnswered,
    async ready() {
      const deadline = Date.now() + START_TIMEOUT_MS
      while (redis.status !== 'ready' && Date.now() < deadline && !isRefusal(lastFault())) {
        await becomesReady(redis, deadline, stop.signal)
      }
      if (redis.status === 'ready') return
      const { host, port } = redis.options
      throw new Error(`REDIS_URL: Redis at ${host}:${port} cannot be used: ${lastFault() ?? 'it does not answer'}`)
    },
    async answers(timeoutMs) {
      if (redis.status !== 'ready') return false
      return within(redis.ping(), timeoutMs).then(
        () => true,
        () => false,
      )
    },
    close() {
      stop.abort()
      redis.disconnect()
    },
  }
}

/** Says once that the connection is lost, and once that it is back. */
function reportOutages(redis: Redis, role: string, logger: RealtimeLogger, signal: AbortSignal) {
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
    logger.info({ connection: role }, 'the connection to Redis stands')
    connected = true
    lastFault = null
  })
  return { lastFault: () => lastFault }
}

/**
 * Breaks a connection over which nothing comes any more although it stands: a peer that vanished, a server that hangs.
 * ioredis would wait for ever, and everything behind the unanswered command with it.
 */
async function watch(redis: Redis, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    const { status, stream } = redis
    if (status === 'ready') {
      await within(redis.ping(), WATCH_INTERVAL_MS).catch(() => {
        if (redis.stream === stream && redis.status === 'ready') stream.destroy()
      })
    }
    await sleep(WATCH_INTERVAL_MS, signal)
    if (status === 'connect' && redis.status === 'connect' && redis.stream === stream) stream.destroy()
  }
}

/** Resolves when the connection is ready, a moment later when it seems so already, at the deadline or when closed. */
function becomesReady(redis: Redis, deadline: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer)
      redis.off('ready', done)
      redis.off('error', done)
      signal.removeEventListener('abort', done)
      resolve()
    }
    const timer = setTimeout(done, redis.status === 'ready' ? RETRY_INTERVAL_MS : Math.max(deadline - Date.now(), 0))
    redis.on('ready', done)
    redis.on('error', done)
    signal.addEventListener('abort', done)
  })
}

/** The promise's outcome, or a rejection after `timeoutMs`; what comes later is dropped. */
export function within<T>(promise: Promise<T>, timeoutMs: number): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new TimeoutError()), timeoutMs)
    promise.then(resolve, reject).finally(() => clearTimeout(timer))
  })
}

class TimeoutError extends Error {}

/** Redis answered, and what it said does not pass by itself. */
class RedisRefusesError extends LogUnavailableError {
  constructor(cause: unknown) {
    super(`Redis refuses: ${messageOf(cause)}`, { cause })
  }
}

/** Faults that go away by themselves: all of the connection, and what a server says that starts, fails over or is busy. */
function isPassing(error: unknown): boolean {
  if (!(error instanceof Error) || error instanceof TypeError) return false
  if (error.name !== 'ReplyError') return true
  return /LOADING|READONLY|MASTERDOWN|BUSY|TRYAGAIN|NOREPLICAS/.test(error.message)
}

/** What no waiting mends. */
function isRefusal(fault: string | null): boolean {
  return fault !== null && /WRONGPASS|NOAUTH|NOPERM|invalid password/.test(fault)
}
