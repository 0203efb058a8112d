import { type IdPrefix, prefixOf } from './ids.ts'
import { decodePageCursor, encodePageCursor, foreignCursor } from './page.ts'

/** The page cursor of something by its id, in a connection that stands alone or under a parent. */
export function encodeIdCursor(id: string, parentId = ''): string {
  return encodePageCursor(`${parentId}/${id}`)
}

/** The id and the parent's in a cursor of things with this prefix. @throws BadInputError for any other cursor. */
export function decodeIdCursor(prefix: IdPrefix, cursor: string): { id: string; parentId: string } {
  const [parentId = '', id = ''] = decodePageCursor(cursor).split('/')
  if (prefixOf(id) !== prefix) throw foreignCursor()
  return { id, parentId }
}
