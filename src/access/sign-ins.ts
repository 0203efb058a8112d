import { LRUCache } from 'lru-cache'
import type { Logger } from 'pino'
import { networkOf } from '../lib/addresses.ts'
import { RateLimitedError } from '../lib/errors.ts'
import { isActingSecret, type Resumed, type Sessions } from './sessions.ts'
import type { Tokens } from './tokens.ts'
import type { Viewer } from './viewer.ts'

/**
 * Authenticates bearer tokens and session cookies. Counts and logs rejected ones, but never logs credentials. `address`
 * is the address of the client, or of a proxy with many clients. Valid credentials are accepted no matter how many
 * others were rejected from the same address, because a flood of invalid credentials must not lock everybody out.
 */
export interface SignIns {
  /** Like `Tokens.authenticate`, for an API request. */
  authenticate(bearer: string, address: string | undefined): Promise<Viewer | null>
  /** Like `Sessions.authenticate`. */
  resume(cookie: string, address: string | undefined, how: { renews: boolean }): Promise<Resumed | null>
  /**
   * Like `Tokens.authenticate`, for opening a session.
   * @throws RateLimitedError for an invalid token after too many rejections from the address within a minute
   */
  signIn(bearer: string, address: string | undefined): Promise<Viewer | null>
  /**
   * Calls `redeem` for another kind of credential, such as an invitation code. `redeem` returns null if the credential
   * is invalid.
   * @throws RateLimitedError under the same condition as `signIn`
   */
  redeem<Redeemed>(address: string | undefined, redeem: () => Promise<Redeemed | null>): Promise<Redeemed | null>
  /**
   * Counts a request for an email.
   * @throws RateLimitedError after 60 requests from one client address within a minute, or 1,200 in total, because each
   * request enqueues a job even if nobody has the email address
   */
  countMail(address: string | undefined): void
  /** Returns the number of rejections in this process. */
  refused(): number
}

/**
 * The period in which the rejections of an address are counted. The 1st, 10th, 100th … rejection of an address is
 * logged.
 */
const COUNTED_MS = 60_000
const MOST_ADDRESSES = 10_000
/**
 * After this number of rejections from an address within a minute, further invalid credentials get a
 * RateLimitedError.
 */
const MOST_REJECTIONS = 300
/** The maximum number of email requests per minute, for one client address and in total. */
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

  /** Counts and logs a rejection. Returns the number of rejections of the address within the current minute. */
  function reject(address: string): number {
    total += 1
    const network = networkOf(address)
    const count = (refused.get(network) ?? 0) + 1
    refused.set(network, count)
    if (/^10*$/.test(String(count))) logger.warn({ address, count }, 'rejected a bearer token')
    return count
  }

  /**
   * Awaits a lookup, and counts a rejection if the lookup found nothing.
   * @throws RateLimitedError after more than `most` rejections
   */
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
          throw new RateLimitedError('Too many email requests. Try again in a minute.', mails.getRemainingTTL(name))
        mails.set(name, count)
      }
    },
    refused: () => total,
  }
}
