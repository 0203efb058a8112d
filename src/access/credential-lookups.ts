import DataLoader from 'dataloader'
import { LRUCache } from 'lru-cache'
import { forRequester } from '../lib/requester-context.ts'

/** The requester of lookups of credentials that have been valid before. It has no other work. */
const KNOWN_CREDENTIALS = 'known-credentials'
/** The requester of lookups of all other credentials, which anybody can invent. */
export const UNKNOWN_CREDENTIALS = 'unknown-credentials'
/**
 * The requester of the transactions that sign people in: with the code of an invitation or email, or through an
 * identity provider.
 */
export const SIGN_IN = 'sign-in'

const MOST_KNOWN = 50_000

/** Looks up credentials by their hash, in batches, because every request needs a lookup. */
export interface CredentialLookups<Found> {
  /** Returns null if there is no such credential. */
  load(hash: string): Promise<Found | null>
  /** Returns the result of an earlier lookup. Use it only to choose the order of lookups, never as a permission. */
  hint(hash: string): Found | undefined
  /** Removes the hint for a credential. */
  forget(hash: string): void
}

/**
 * Creates separate queues for credentials that were found before and for all others, so that a flood of invented
 * credentials delays only the first requests of clients that have just signed in.
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
