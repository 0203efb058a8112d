import type { Connection } from './connection.ts'
import { errorOf } from './errors.ts'
import type { LiveListedSpaceFragment, LiveSpacesQuery } from './generated/graphql.ts'
import { SPACES } from './operations.ts'
import { requestPage } from './paging.ts'

const PAGE_SIZE = 100
const LEAST_WAIT_MS = 1000

export type ListedSpace = LiveListedSpaceFragment

/** The viewer's spaces: a list that is loaded page by page and updated by events. An event is newer than the list. */
export function createListedSpaces(connection: Connection, onChange: () => void) {
  const spaces = new Map<string, ListedSpace>()
  /** Ids of spaces that events changed while the list was being loaded. */
  let told = new Set<string>()
  let loads = 0

  /** Adds a page. Returns the cursor of the next page; null after the last one. */
  function takePage({ edges, pageInfo }: LiveSpacesQuery['spaces'], listed: Set<string>): string | null {
    for (const { node } of edges) {
      listed.add(node.id)
      if (!told.has(node.id)) spaces.set(node.id, node)
    }
    onChange()
    return pageInfo.hasNextPage ? pageInfo.endCursor : null
  }

  return {
    /** Returns the spaces, those with the latest activity first. */
    inOrder: (): ListedSpace[] => [...spaces.values()].sort((one, other) => timeOf(other).localeCompare(timeOf(one))),
    unreadCount: () => [...spaces.values()].reduce((sum, { unreadCount }) => sum + unreadCount, 0),
    put(space: ListedSpace): void {
      told.add(space.id)
      spaces.set(space.id, space)
      onChange()
    },
    remove(id: string): void {
      told.add(id)
      spaces.delete(id)
      onChange()
    },
    /** Loads the whole list. Resolves to false if another load has replaced this one. @throws ParleyError */
    async load(): Promise<boolean> {
      loads += 1
      const load = loads
      told = new Set()
      const listed = new Set<string>()
      let after: string | null = null
      do {
        const page = await loadPage(connection, after, () => load === loads)
        if (page === null || load !== loads) return false
        after = takePage(page.spaces, listed)
      } while (after !== null)
      for (const id of [...spaces.keys()]) if (!listed.has(id) && !told.has(id)) spaces.delete(id)
      return true
    },
    stopLoading(): void {
      loads += 1
    },
  }
}

const timeOf = ({ lastMessage, createdAt }: ListedSpace) => lastMessage?.createdAt ?? createdAt

/**
 * Loads a page. If the server asks the client to retry later, waits and retries. Returns null if the page is no longer needed.
 * @throws ParleyError
 */
async function loadPage(
  connection: Connection,
  after: string | null,
  isNeeded: () => boolean,
): Promise<LiveSpacesQuery | null> {
  while (isNeeded()) {
    try {
      return await requestPage(PAGE_SIZE, (first) => connection.ask(SPACES, { after, first }))
    } catch (failure) {
      const { code, retryAfterMs } = errorOf(failure)
      if (code !== 'RATE_LIMITED') throw failure
      await new Promise((resolve) => setTimeout(resolve, Math.max(retryAfterMs ?? 0, LEAST_WAIT_MS)))
    }
  }
  return null
}
