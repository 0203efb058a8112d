import DataLoader from 'dataloader'
import { LRUCache } from 'lru-cache'
import { forRequester } from '../lib/requester-context.ts'

/** The requester for lookups of credentials that were valid before. It is used for nothing else. */
const KNOWN_CREDENTIALS = 'known-credentials'
/** The requester for lookups of all other credentials, which anybody can invent. */
export const UNKNOWN_CREDENTIALS = 'unknown-credentials'
/**
 * The requester for transactions that sign people in, with the code of an invitation or email, or through an identity
 * provider.
 */
export const SIGN_IN = 'sign-in'

const MOST_KNOWN = 50_000

/** Looks up credentials by their hash, in batches, because every request needs a lookup. */
export interface CredentialLookups<Found> {
  /** Returns null if there is no such credential. */
  load(hash: string): Promise<Found | null>
  /** Returns the result of an earlier lookup. Use this only to decide the order of lookups, never to grant access. */
  hint(hash: string): Found | undefined
  /** Removes the hint for a credential. */
  forget(hash: string): void
}

/**
 * Creates one queue for credentials that were found before, and one for all others. So a flood of invented credentials
 * delays only the first requests of clients that have just signed in.
 * @param select returns the found values by hash
 */
export function createCredentialLookups<Found extends object>(
  select: (hashes: readonly string[]) => Promise<ReadonlyMap<string, Found>>,
): CredentialLookups<Found> {
  const known = new LRUCache<string, Found>({ max: MOST_KNOWN })
  const inLine = (requester: string) =>
    new DataLoader<string, Found | null>(
      async (hashes) => {
        const found = await forRequester(requester, () => select(hashes))
        return hashes.map((hash) => found.get(hash) ?? null)
      },
      { cache: false, batchScheduleFn: setImmediate },
    )
  const [ofKnown, ofUnknown] = [inLine(KNOWN_CREDENTIALS), inLine(UNKNOWN_CREDENTIALS)]

  return {
    async load(hash) {
      const found = await (known.has(hash) ? ofKnown : ofUnknown).load(hash)
      if (found !== null) known.set(hash, found)
      return found
    },
    hint: (hash) => known.get(hash),
    forget: (hash) => void known.delete(hash),
  }
}
