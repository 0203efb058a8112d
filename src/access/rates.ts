import { LRUCache } from 'lru-cache'
import { RateLimiterMemory, RateLimiterRedis, RateLimiterRes } from 'rate-limiter-flexible'
import type { SharedRedis } from '../broker/broker.ts'
import { sleep } from '../lib/async.ts'
import { createCounts } from '../lib/counts.ts'
import { RateLimitedError } from '../lib/errors.ts'
import { isAdmin } from '../rules/permissions.ts'
import type { Viewer } from './viewer.ts'

/** The rate limits of `Config.rates`, each per minute. */
export type RateName = 'messages' | 'triggers' | 'requests'
export type RateSettings = Record<RateName, number>

/** The state of one rate limit for a viewer. */
export interface Rate {
  name: RateName
  limit: number
  remaining: number
  resetsAt: Date
}

export interface TurnOptions {
  longestMs: number
  signal?: AbortSignal | undefined
}

/** Enforces rate limits per viewer, service or webhook, across all processes. */
export interface Rates {
  /**
   * Counts `points` for a viewer, or for another key, such as a webhook's. Admins are not limited.
   * @throws RateLimitedError if the limit is exceeded
   */
  take(name: RateName, who: Viewer | string, points?: number): Promise<void>
  /** Returns an error if the viewer has exceeded the limit; otherwise null. Does not change the count. */
  refusal(name: RateName, viewer: Viewer): RateLimitedError | null
  /**
   * Like `take`, but for requests that can wait. If the limit is exceeded, waits up to `longestMs` for capacity.
   * @throws RateLimitedError after this time, or if 500 requests from the viewer are already waiting; the signal's
   * reason if the signal aborts
   */
  takeInTurn(name: RateName, who: Viewer, points: number, how: TurnOptions): Promise<void>
  /** Returns the state of a viewer's limits; empty for an admin. Omits limits that are disabled. */
  of(viewer: Viewer): Promise<Rate[]>
}

const MINUTE_SECONDS = 60
/**
 * The maximum number of keys above the limit that this process remembers. Requests with other keys are counted again.
 */
const MOST_SPENT = 10_000
/** The maximum number of waiting requests per viewer. */
const MOST_WAITING = 500
const NAMES: RateName[] = ['messages', 'requests', 'triggers']

interface Limiter {
  here: RateLimiterMemory
  /** When each key above the limit may continue, as a value of `performance.now()`. */
  spent: LRUCache<string, number>
  everywhere: RateLimiterRedis | null
}

/**
 * Counts synchronously in this process and, if processes share a Redis, asynchronously in Redis. If a key exceeds the
 * limit in Redis, it is also blocked in this process. Without Redis, each process enforces the limit separately.
 */
export function createRates(settings: RateSettings, shared: SharedRedis | null): Rates {
  const limiters = new Map(
    NAMES.filter((name) => settings[name] > 0).map((name) => [name, limiterOf(name, settings[name], shared)] as const),
  )

  /** The number of requests that wait for capacity, by viewer. */
  const waiting = createCounts()

  async function count({ here, everywhere, spent }: Limiter, key: string, points: number): Promise<number> {
    const elsewhere = everywhere?.consume(key, points)
    elsewhere?.catch((reason) => {
      if (reason instanceof RateLimiterRes) void here.block(key, reason.msBeforeNext / 1000)
    })
    const waitMs = await here.consume(key, points).then(() => 0, waitOf)
    if (waitMs > 0) spent.set(key, performance.now() + waitMs, { ttl: waitMs })
    return waitMs
  }

  async function take(name: RateName, who: Viewer | string, points = 1): Promise<void> {
    const limiter = limiters.get(name)
    if (limiter === undefined || (typeof who !== 'string' && isAdmin(who))) return
    const retryAfterMs = await count(limiter, keyOf(who), points)
    if (retryAfterMs > 0) throw new RateLimitedError(tooMuchOf(name, settings[name]), retryAfterMs)
  }

  return {
    take,
    refusal(name, viewer) {
      const until = isAdmin(viewer) ? undefined : limiters.get(name)?.spent.get(keyOf(viewer))
      if (until === undefined) return null
      return new RateLimitedError(tooMuchOf(name, settings[name]), Math.max(1, Math.ceil(until - performance.now())))
    },
    async takeInTurn(name, who, points, { longestMs, signal }) {
      const until = performance.now() + longestMs
      for (;;) {
        const refusal = await take(name, who, points).then(
          () => null,
          (error: unknown) => error,
        )
        if (refusal === null) return
        const isWorthIt = refusal instanceof RateLimitedError && performance.now() + refusal.retryAfterMs <= until
        if (!isWorthIt || waiting.of(who.id) >= MOST_WAITING) throw refusal
        waiting.add(who.id, 1)
        await sleep(refusal.retryAfterMs, signal)
        waiting.add(who.id, -1)
        signal?.throwIfAborted()
      }
    },
    async of(viewer) {
      if (isAdmin(viewer)) return []
      const key = keyOf(viewer)
      return Promise.all([...limiters].map(([name, one]) => standingOf({ name, limit: settings[name] }, one, key)))
    },
  }
}

async function standingOf(
  { name, limit }: Pick<Rate, 'name' | 'limit'>,
  { here, everywhere }: Limiter,
  key: string,
): Promise<Rate> {
  const [own, all] = await Promise.all([here.get(key), everywhere?.get(key).catch(() => null)])
  const used = Math.max(own?.consumedPoints ?? 0, all?.consumedPoints ?? 0)
  const leftMs = Math.max(own?.msBeforeNext ?? 0, all?.msBeforeNext ?? 0)
  return { name, limit, remaining: Math.max(0, limit - used), resetsAt: new Date(Date.now() + leftMs) }
}

function limiterOf(name: RateName, points: number, shared: SharedRedis | null): Limiter {
  const options = { keyPrefix: name, points, duration: MINUTE_SECONDS }
  const here = new RateLimiterMemory(options)
  const spent = new LRUCache<string, number>({ max: MOST_SPENT })
  if (shared === null) return { here, spent, everywhere: null }
  const { redis, prefix } = shared
  const keyPrefix = `${prefix}rate:${name}`
  return {
    here,
    spent,
    everywhere: new RateLimiterRedis({ ...options, keyPrefix, storeClient: redis, rejectIfRedisNotReady: true }),
  }
}

const keyOf = (who: Viewer | string) => (typeof who === 'string' ? who : who.id)

/**
 * Returns the time to wait after the limiter has rejected a request.
 * @throws `reason` if it is not a rejection by the limiter
 */
function waitOf(reason: unknown): number {
  if (reason instanceof RateLimiterRes) return Math.max(1, Math.ceil(reason.msBeforeNext))
  throw reason
}

function tooMuchOf(name: RateName, limit: number): string {
  const what = name === 'requests' ? `requests (weighted by cost)` : name
  return `You may send at most ${limit} ${what} a minute; wait and try again.`
}
