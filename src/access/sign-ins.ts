import { LRUCache } from 'lru-cache'
import type { Logger } from 'pino'
import { networkOf } from '../lib/addresses.ts'
import { RateLimitedError } from '../lib/errors.ts'
import type { Resumed, Sessions } from './sessions.ts'
import type { Tokens } from './tokens.ts'
import type { Viewer } from './viewer.ts'

/**
 * Authenticates bearer tokens and the cookies of sessions, counts and logs rejected ones, and limits how many an address may
 * try. `address` is the client's address, or that of a proxy with all its clients. Credentials are never logged. All methods
 * throw RateLimitedError, without a lookup, while the address has had too many credentials rejected within a minute.
 */
export interface SignIns {
  /** As `Tokens.authenticate`, for a request of the API. */
  authenticate(bearer: string, address: string | undefined): Promise<Viewer | null>
  /** As `Sessions.authenticate`. */
  resume(cookie: string, address: string | undefined, how: { renews: boolean }): Promise<Resumed | null>
  /** As `Tokens.authenticate`, to open a session. */
  signIn(bearer: string, address: string | undefined): Promise<Viewer | null>
  /** Runs `redeem` for another kind of credential, such as an invitation code. `redeem` returns null if it is invalid. */
  redeem<Redeemed>(address: string | undefined, redeem: () => Promise<Redeemed | null>): Promise<Redeemed | null>
  /** The number of rejections in this process. */
  refused(): number
}

/**
 * The window for counting rejections per address. The log has a line for the 1st, 10th, 100th … rejection of an
 * address.
 */
const COUNTED_MS = 60_000
const MOST_ADDRESSES = 10_000
/** Rejections of an address within a minute, after which it may not sign in or redeem codes. */
const MOST_FOR_SIGN_INS = 300
/** The same for requests of the API: valid tokens of programs, and people, behind the same proxy must keep working. */
const MOST_FOR_REQUESTS = 3000

export function createSignIns(
  { tokens, sessions }: { tokens: Pick<Tokens, 'authenticate'>; sessions: Pick<Sessions, 'authenticate'> },
  logger: Pick<Logger, 'warn'>,
): SignIns {
  let total = 0
  const refused = new LRUCache<string, number>({ max: MOST_ADDRESSES, ttl: COUNTED_MS, noUpdateTTL: true })

  function refuse(address: string): void {
    total += 1
    const network = networkOf(address)
    const count = (refused.get(network) ?? 0) + 1
    refused.set(network, count)
    if (/^10*$/.test(String(count))) logger.warn({ address, count }, 'rejected a bearer token')
  }

  async function attempt<Found>(
    address = 'unknown',
    mostRefused: number,
    lookUp: () => Promise<Found | null>,
  ): Promise<Found | null> {
    const network = networkOf(address)
    if ((refused.get(network) ?? 0) >= mostRefused) {
      refuse(address)
      throw new RateLimitedError('Too many failed sign-ins. Try again in a minute.', refused.getRemainingTTL(network))
    }
    const found = await lookUp()
    if (found === null) refuse(address)
    return found
  }

  return {
    authenticate: (bearer, address) => attempt(address, MOST_FOR_REQUESTS, () => tokens.authenticate(bearer)),
    resume: (cookie, address, how) => attempt(address, MOST_FOR_REQUESTS, () => sessions.authenticate(cookie, how)),
    signIn: (bearer, address) => attempt(address, MOST_FOR_SIGN_INS, () => tokens.authenticate(bearer)),
    redeem: (address, redeem) => attempt(address, MOST_FOR_SIGN_INS, redeem),
    refused: () => total,
  }
}
