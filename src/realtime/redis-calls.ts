import type { Cluster, Redis } from 'ioredis'
import { sleep } from '../lib/async.ts'
import { messageOf } from '../lib/errors.ts'
import { LogUnavailableError } from './event-log.ts'
import type { RealtimeLogger } from './logger.ts'

/** How long a call waits for a response, including a reconnect. */
export const CALL_TIMEOUT_MS = 5000
const RETRY_INTERVAL_MS = 50
const REFUSED_PAUSE_MS = 500

/** Calls to Redis, with retries. */
export interface RedisCalls {
  /**
   * Retries until Redis responds, across reconnects, for 5 s or until `deadline` (in ms of `Date.now`). The
   * attempt must be idempotent.
   * @throws LogUnavailableError
   */
  call<T>(attempt: () => Promise<T>, deadline?: number): Promise<T>
  /**
   * Retries without a limit of time, also if Redis refuses the call, as long as `isWanted` returns true.
   * @throws LogUnavailableError once `isWanted` returns false, or the connection is closed
   */
  callUntilAnswered<T>(attempt: () => Promise<T>, isWanted: () => boolean): Promise<T>
}

export function createRedisCalls(redis: Redis | Cluster, logger: RealtimeLogger, closed: AbortSignal): RedisCalls {
  async function call<T>(attempt: () => Promise<T>, deadline = Date.now() + CALL_TIMEOUT_MS): Promise<T> {
    for (;;) {
      if (closed.aborted) throw new LogUnavailableError('The connection to Redis is closed.')
      try {
        if (redis.status === 'ready')
          return await withTimeout(attempt(), Math.max(deadline - Date.now(), RETRY_INTERVAL_MS))
      } catch (error) {
        if (!isPassing(error)) throw new RedisRefusesError(error)
      }
      if (Date.now() + RETRY_INTERVAL_MS > deadline) throw new LogUnavailableError('Redis did not respond in time.')
      await becomesReady(redis, deadline, closed)
    }
  }

  async function callUntilAnswered<T>(attempt: () => Promise<T>, isWanted: () => boolean): Promise<T> {
    let told = false
    for (;;) {
      try {
        return await call(attempt)
      } catch (error) {
        if (closed.aborted || !isWanted()) throw error
        if (!(error instanceof RedisRefusesError)) continue
        if (!told) logger.warn({ error: error.message }, 'a Redis call failed; buffering events in memory')
        told = true
        await sleep(REFUSED_PAUSE_MS, closed)
      }
    }
  }

  return { call, callUntilAnswered }
}

/**
 * Resolves when the connection becomes ready, at the deadline, or when it is closed. If it already seems
 * ready, it resolves after a short pause.
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

/** Settles like the promise, but rejects after `timeoutMs`. A later result is ignored. */
export function withTimeout<T>(promise: Promise<T>, timeoutMs: number): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new TimeoutError()), timeoutMs)
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
export async function answersWithin(redis: Redis, timeoutMs: number): Promise<boolean> {
  if (redis.status !== 'ready') return false
  return withTimeout(redis.ping(), timeoutMs).then(
    () => true,
    () => false,
  )
}

class TimeoutError extends Error {}

/** Redis returned an error that a retry does not resolve. */
class RedisRefusesError extends LogUnavailableError {
  constructor(cause: unknown) {
    super(`Redis refuses: ${messageOf(cause)}`, { cause })
  }
}

/**
 * Whether an error is transient: all connection errors, and errors of a server that starts, fails over or is
 * busy.
 */
function isPassing(error: unknown): boolean {
  if (!(error instanceof Error) || error instanceof TypeError) return false
  if (error.name !== 'ReplyError') return true
  return /LOADING|READONLY|MASTERDOWN|CLUSTERDOWN|MOVED|ASK|BUSY|TRYAGAIN|NOREPLICAS/.test(error.message)
}

/** Whether an error is a configuration error that no retry resolves. */
export function isRefusal(fault: string | null): boolean {
  return fault !== null && /WRONGPASS|NOAUTH|NOPERM|invalid password|cluster support disabled/.test(fault)
}
