import { LRUCache } from 'lru-cache'
import type { Logger } from 'pino'
import { networkOf } from '../lib/addresses.ts'
import { RateLimitedError } from '../lib/errors.ts'
import { isActingSecret, type Resumed, type Sessions } from './sessions.ts'
import type { Tokens } from './tokens.ts'
import type { Viewer } from './viewer.ts'

/**
 * Authenticates bearer tokens and the cookies of sessions, and counts and logs rejected ones. `address` is the client's
 * address, or that of a proxy with all its clients: valid credentials are accepted however many others were rejected, because
 * a flood of invalid ones must not sign everybody out. Credentials are never logged.
 */
export interface SignIns {
  /** As `Tokens.authenticate`, for a request of the API. */
  authenticate(bearer: string, address: string | undefined): Promise<Viewer | null>
  /** As `Sessions.authenticate`. */
  resume(cookie: string, address: string | undefined, how: { renews: boolean }): Promise<Resumed | null>
  /**
   * As `Tokens.authenticate`, to open a session. @throws RateLimitedError for an invalid token after too many rejections
   * of the address within a minute
   */
  signIn(bearer: string, address: string | undefined): Promise<Viewer | null>
  /**
   * Runs `redeem` for another kind of credential, such as an invitation code. `redeem` returns null if it is invalid.
   * @throws RateLimitedError as `signIn`
   */
  redeem<Redeemed>(address: string | undefined, redeem: () => Promise<Redeemed | null>): Promise<Redeemed | null>
  /**
   * Counts a request for a mail. @throws RateLimitedError over 60 of an address within a minute, or 1,200 of all: each
   * enqueues a job, whether or not anybody has the address that it names
   */
  countMail(address: string | undefined): void
  /** The number of rejections in this process. */
  refused(): number
}

/**
 * The window for counting rejections per address. The log has a line for the 1st, 10th, 100th … rejection of an
 * address.
 */
const COUNTED_MS = 60_000
const MOST_ADDRESSES = 10_000
/** Rejections of an address within a minute, after which clients are asked to slow down. */
const MOST_REJECTIONS = 300
/** Requests for mails within a minute, of an address and of all. */
const [MOST_MAILS_OF_ADDRESS, MOST_MAILS] = [60, 1200]

export function createSignIns(
  {
    tokens,
    sessions,
  }: { tokens: Pick<Tokens, 'authenticate'>; sessions: Pick<Sessions, 'authenticate' | 'authenticateActing'> },
  logger: Pick<Logger, 'warn'>,
): SignIns {
  let total = 0
  const mails = new LRUCache<string, number>({ max: MOST_ADDRESSES, ttl: COUNTED_MS, noUpdateTTL: true })
  const refused = new LRUCache<string, number>({ max: MOST_ADDRESSES, ttl: COUNTED_MS, noUpdateTTL: true })

  /** Counts and logs a rejection. Returns how many the address has had within a minute. */
  function reject(address: string): number {
    total += 1
    const network = networkOf(address)
    const count = (refused.get(network) ?? 0) + 1
    refused.set(network, count)
    if (/^10*$/.test(String(count))) logger.warn({ address, count }, 'rejected a bearer token')
    return count
  }

  /** Waits for a lookup, and counts it if it found nothing. @throws RateLimitedError beyond `most` rejections */
  async function attempt<Found>(
    address: string | undefined = 'unknown',
    lookup: Promise<Found | null>,
    most = Number.POSITIVE_INFINITY,
  ): Promise<Found | null> {
    const found = await lookup
    if (found === null && reject(address) > most) {
      const retryAfterMs = refused.getRemainingTTL(networkOf(address))
      throw new RateLimitedError('Too many failed sign-ins. Try again in a minute.', retryAfterMs)
    }
    return found
  }

  const viewerOf = (bearer: string) =>
    isActingSecret(bearer) ? sessions.authenticateActing(bearer) : tokens.authenticate(bearer)

  return {
    authenticate: (bearer, address) => attempt(address, viewerOf(bearer)),
    resume: (cookie, address, how) => attempt(address, sessions.authenticate(cookie, how)),
    signIn: (bearer, address) => attempt(address, viewerOf(bearer), MOST_REJECTIONS),
    redeem: (address, redeem) => attempt(address, redeem(), MOST_REJECTIONS),
    countMail(address = 'unknown') {
      for (const [name, most] of [
        [networkOf(address), MOST_MAILS_OF_ADDRESS],
        ['all', MOST_MAILS],
      ] as const) {
        const count = (mails.get(name) ?? 0) + 1
        if (count > most)
          throw new RateLimitedError('Too many requests for mails. Try again in a minute.', mails.getRemainingTTL(name))
        mails.set(name, count)
      }
    },
    refused: () => total,
  }
}
