import DataLoader from 'dataloader'
import { LRUCache } from 'lru-cache'
import { forRequester } from '../lib/requester-context.ts'

/** The requester of lookups of credentials that were valid before, and of nothing else. */
const KNOWN_CREDENTIALS = 'known-credentials'
/** The requester of lookups of all other credentials, which anybody can make up. */
export const UNKNOWN_CREDENTIALS = 'unknown-credentials'
/** The requester of the transactions that sign in: with a code of an invitation or mail, or by an identity provider. */
export const SIGN_IN = 'sign-in'

const MOST_KNOWN = 50_000

/** Looks up credentials by their hash, in batches: every request needs one. */
export interface CredentialLookups<Found> {
  /** Returns null if there is no such credential. */
  load(hash: string): Promise<Found | null>
  /** Whether the credential was found before. Only a hint about the order of lookups, never a permission. */
  hint(hash: string): Found | undefined
  /** Forgets the hint. */
  forget(hash: string): void
}

/**
 * Made-up credentials and those that were found before are looked up in separate lines, so that a flood of made-up ones
 * delays only the first requests of clients that have just signed in.
 * @param select returns what was found, by hash
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
