import { decodeIdCursor, encodeIdCursor } from '../lib/id-cursor.ts'
import { type IdPrefix, prefixOf } from '../lib/ids.ts'
import { foreignCursor, type Page, type PageArguments, type PageRequest, pageRequest } from '../lib/page.ts'
import type { RunsRequest } from './viewer-loaders.ts'

/** Converts a page of rows to a connection. */
export function connectionOf<T>(
  { items, hasNextPage, hasPreviousPage, fromEnd }: Page<T>,
  cursorOf: (item: T) => string,
) {
  const edges = items.map((node) => ({ cursor: cursorOf(node), node }))
  const startCursor = edges[0]?.cursor ?? null
  return {
    edges,
    fromEnd,
    pageInfo: { hasNextPage, hasPreviousPage, startCursor, endCursor: edges.at(-1)?.cursor ?? null },
  }
}

/**
 * Converts the arguments for a page that is ordered by id. If `ofParent` is given, the cursors are valid only for
 * this parent.
 * @throws BadInputError for a cursor of another parent or type
 */
export function idPageRequest(prefix: IdPrefix, page: PageArguments, ofParent = ''): PageRequest {
  return pageRequest(page, (cursor) => {
    const { id, parentId } = decodeIdCursor(prefix, cursor)
    if (parentId !== ofParent) throw foreignCursor()
    return id
  })
}

export const idCursor = ({ id }: { id: string }): string => encodeIdCursor(id)

/** Returns a function that creates cursors valid only for one parent. */
export const idCursorWithin =
  (parentId: string) =>
  ({ id }: { id: string }): string =>
    encodeIdCursor(id, parentId)

/** Converts the arguments for a page of messages. The default is the last 50 messages. A message's id is its cursor. */
export function messagesRequest(page: PageArguments): PageRequest {
  const decode = (cursor: string) => {
    if (prefixOf(cursor) !== 'msg') throw foreignCursor()
    return cursor
  }
  return pageRequest(page, decode, { size: DEFAULT_MESSAGES, fromEnd: true })
}

export const DEFAULT_MESSAGES = 50

/** Converts the arguments for a page of an agent's runs. Their cursors contain the agent's id. */
export function runsRequest(page: PageArguments): RunsRequest {
  const request = pageRequest(page, (cursor) => decodeIdCursor('run', cursor).id)
  const agentOf = (cursor: string | null | undefined) =>
    cursor == null ? null : decodeIdCursor('run', cursor).parentId
  return { ...request, cursorAgents: { after: agentOf(page.after), before: agentOf(page.before) } }
}

export const runCursor = ({ id, agentId }: { id: string; agentId: string }): string => encodeIdCursor(id, agentId)

/** Returns the complexity of a connection. Its fields count once for each item that the connection may return. */
export function sizeOfPage(fallback = 20) {
  return ({ first, last }: { first?: number | null; last?: number | null }) => {
    const size = first ?? last ?? fallback
    return { field: 1, multiplier: Math.min(Math.max(size, 1), 100) }
  }
}
