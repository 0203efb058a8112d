import { type IdPrefix, prefixOf } from './ids.ts'
import { decodePageCursor, encodePageCursor, foreignCursor } from './page.ts'

/** Encodes the page cursor of an object, in a root connection or under a parent. */
export function encodeIdCursor(id: string, parentId = ''): string {
  return encodePageCursor(`${parentId}/${id}`)
}

/** Decodes a cursor into the id and the parent's id. @throws BadInputError for a cursor of another kind */
export function decodeIdCursor(prefix: IdPrefix, cursor: string): { id: string; parentId: string } {
  const [parentId = '', id = ''] = decodePageCursor(cursor).split('/')
  if (prefixOf(id) !== prefix) throw foreignCursor()
  return { id, parentId }
}
