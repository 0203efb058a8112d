import { createHash } from 'node:crypto'

/**
 * A copied id keeps this many characters of its original: the prefix, the time and most of the counter. So copies sort
 * like their originals.
 */
const KEPT = 26

/**
 * Returns the id that a row's copy has in a copied space. The database has the same function, `copiedId` (migration
 * `forks`), so references between rows can be converted without a table of ids.
 */
export function copiedId(id: string, intoSpaceId: string): string {
  const hash = createHash('md5')
    .update(id + intoSpaceId)
    .digest('hex')
  return id.slice(0, KEPT) + hash.slice(KEPT - 4)
}
