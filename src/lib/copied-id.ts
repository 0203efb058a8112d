import { createHash } from 'node:crypto'

/**
 * The number of characters of an id that a copy keeps: prefix, time and most of the counter, so that copies sort
 * like their originals.
 */
const KEPT = 26

/**
 * Returns the id of the copy of a row in a copy of a space. The database has the same function, `copiedId` (migration
 * `forks`), so that rows can refer to each other's copies without a table of both ids.
 */
export function copiedId(id: string, intoSpaceId: string): string {
  const hash = createHash('md5')
    .update(id + intoSpaceId)
    .digest('hex')
  return id.slice(0, KEPT) + hash.slice(KEPT - 4)
}
