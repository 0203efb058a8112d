import { LRUCache } from 'lru-cache'
import type { Logger } from 'pino'
import type { Tokens } from './tokens.ts'
import type { Viewer } from './viewer.ts'

/** Signs in whoever comes with a token, and notes who is refused. */
export interface SignIns {
  /** As Tokens.authenticate. `address`: of who asks, for the log; the token itself is never noted. */
  authenticate(bearer: string, address: string | undefined): Promise<Viewer | null>
  /** Notes one who came with something else that is no good, such as the code of an invitation. */
  refuse(address: string | undefined): void
  /** How many this process has refused. */
  refused(): number
}

/** An address is logged at its first refusal in a minute, and with their number at each tenfold of it. */
const COUNTED_MS = 60_000
const MOST_ADDRESSES = 10_000

export function createSignIns(tokens: Pick<Tokens, 'authenticate'>, logger: Pick<Logger, 'warn'>): SignIns {
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
    refuse,
    refused: () => total,
  }
}
