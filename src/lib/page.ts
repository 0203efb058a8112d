import { BadInputError } from './errors.ts'

/** The arguments of a connection. */
export interface PageArguments {
  first?: number | null
  after?: string | null
  last?: number | null
  before?: string | null
}

/** A validated request for a page: at most `size` items between two keys, from the start or the end of the order. */
export interface PageRequest {
  size: number
  fromEnd: boolean
  after: string | null
  before: string | null
}

/** A page of items. The items are in the connection's order in both directions. */
export interface Page<T> {
  items: T[]
  hasNextPage: boolean
  hasPreviousPage: boolean
  /** Whether the page was read from the end of the order. If such a page is shortened, its last items are kept. */
  fromEnd?: boolean
}

const LARGEST_PAGE = 100

/**
 * Checks a connection's arguments. `decode` converts a cursor to a key of the order, and throws BadInputError for a
 * cursor that this connection did not create.
 * @throws BadInputError for `first` together with `last`, a size outside 1–100, or an invalid cursor.
 */
export function pageRequest(
  { first, after, last, before }: PageArguments,
  decode: (cursor: string) => string = decodePageCursor,
  defaults: { size: number; fromEnd: boolean } = { size: 20, fromEnd: false },
): PageRequest {
  if (first != null && last != null) throw new BadInputError('Pass `first` or `last`, not both.', 'first')
  const size = first ?? last ?? defaults.size
  if (size < 1 || size > LARGEST_PAGE) {
    throw new BadInputError(`A page holds 1 to ${LARGEST_PAGE} items, not ${size}.`, first != null ? 'first' : 'last')
  }
  return {
    size,
    fromEnd: first != null ? false : last != null ? true : defaults.fromEnd,
    after: keyAt('after', after, decode),
    before: keyAt('before', before, decode),
  }
}

function keyAt(field: 'after' | 'before', cursor: string | null | undefined, decode: (cursor: string) => string) {
  if (cursor == null) return null
  try {
    return decode(cursor)
  } catch (error) {
    throw error instanceof BadInputError ? new BadInputError(error.message, field) : error
  }
}

/** Returns the error for a cursor that this connection did not create. */
export function foreignCursor(field: 'after' | 'before' = 'after'): BadInputError {
  return new BadInputError('Invalid cursor: use one from the `edges` or `pageInfo` of this connection.', field)
}

/** Encodes a key of the order as an opaque cursor. */
export function encodePageCursor(key: string): string {
  return Buffer.from(`p:${key}`).toString('base64url')
}

/** Decodes a cursor to its key. @throws BadInputError for a malformed cursor */
export function decodePageCursor(cursor: string): string {
  const text = Buffer.from(cursor, 'base64url').toString()
  if (!text.startsWith('p:') || encodePageCursor(text.slice(2)) !== cursor) {
    throw foreignCursor()
  }
  return text.slice(2)
}

/**
 * Builds a page from rows in the direction of the request. `rows` can contain one row more than requested (`size + 1`).
 * `beyond` tells whether there are rows on the other side of the page: before the first row when reading forward, after
 * the last row when reading backward.
 */
export function pageOf<T>(request: PageRequest, rows: T[], beyond: boolean): Page<T> {
  const more = rows.length > request.size
  const items = rows.slice(0, request.size)
  if (request.fromEnd) return { items: items.reverse(), hasPreviousPage: more, hasNextPage: beyond }
  return { items, hasNextPage: more, hasPreviousPage: beyond }
}
