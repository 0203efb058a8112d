import { LRUCache } from 'lru-cache'
import type { Logger } from 'pino'
import type { Resumed, Sessions } from './sessions.ts'
import type { Tokens } from './tokens.ts'
import type { Viewer } from './viewer.ts'

/** Authenticates bearer tokens and the cookies of sessions, and counts and logs rejected ones. */
export interface SignIns {
  /** As `Tokens.authenticate`. `address` is the client's address, for the log; the token itself is never logged. */
  authenticate(bearer: string, address: string | undefined): Promise<Viewer | null>
  /** As `Sessions.authenticate`. */
  resume(cookie: string, address: string | undefined, how: { renews: boolean }): Promise<Resumed | null>
  /** Counts and logs another kind of invalid credential, such as an invitation code. */
  refuse(address: string | undefined): void
  /** The number of rejections in this process. */
  refused(): number
}

/**
 * The window for counting rejections per address. The log has a line for the 1st, 10th, 100th … rejection of an
 * address.
 */
const COUNTED_MS = 60_000
const MOST_ADDRESSES = 10_000

export function createSignIns(
  { tokens, sessions }: { tokens: Pick<Tokens, 'authenticate'>; sessions: Pick<Sessions, 'authenticate'> },
  logger: Pick<Logger, 'warn'>,
): SignIns {
  let total = 0
  const refused = new LRUCache<string, number>({ max: MOST_ADDRESSES, ttl: COUNTED_MS, noUpdateTTL: true })
  function refuse(address = 'unknown'): void {
    total += 1
    const count = (refused.get(address) ?? 0) + 1
    refused.set(address, count)
    if (/^10*$/.test(String(count))) logger.warn({ address, count }, 'rejected a bearer token')
  }
  return {
    async authenticate(bearer, address) {
      const viewer = await tokens.authenticate(bearer)
      if (viewer) return viewer
      refuse(address)
      return null
    },
    async resume(cookie, address, how) {
      const resumed = await sessions.authenticate(cookie, how)
      if (resumed === null) refuse(address)
      return resumed
    },
    refuse,
    refused: () => total,
  }
}
