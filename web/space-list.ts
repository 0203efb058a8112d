import type { ConsoleListedSpaceFragment } from '../generated/graphql.ts'
import type { Api } from './api.ts'
import { element, notify } from './dom.ts'
import { SPACES, VIEWER_EVENTS } from './operations.ts'
import { wordsOf } from './refusal.ts'

/** The viewer's spaces on the page, live. */
export interface SpaceList {
  element: HTMLElement
  /** Marks the one that is open. */
  select(spaceId: string | null): void
  close(): void
}

type Listed = ConsoleListedSpaceFragment

export function createSpaceList(
  api: Api,
  hooks: { onOpen(spaceId: string): void; onGone(spaceId: string): void; onEnd(error: unknown): void },
): SpaceList {
  const list = element('ul')
  const made = element('nav', { 'aria-label': 'Spaces' }, element('h2', {}, 'Spaces'), list)
  const spaces = new Map<string, Listed>()
  let selected: string | null = null
  /** What happened while the list was being fetched: it is newer than what comes. */
  let meanwhile: (() => void)[] | null = null

  function show(): void {
    const entries = [...spaces.values()].map(({ id, name, unreadCount }) => {
      const unread = element('span', { class: 'unread', 'aria-label': `${unreadCount} unread` }, String(unreadCount))
      const isOpen = id === selected
      const open = element('button', { type: 'button', onclick: () => hooks.onOpen(id) }, name)
      if (isOpen) open.setAttribute('aria-current', 'page')
      if (unreadCount > 0) open.append(unread)
      return element('li', {}, open)
    })
    list.replaceChildren(...(entries.length > 0 ? entries : [element('li', { class: 'about' }, 'None yet.')]))
  }

  function take(change: () => void): void {
    meanwhile?.push(change)
    change()
    show()
  }

  async function fetchAll(): Promise<void> {
    const changes: (() => void)[] = []
    meanwhile = changes
    const found: Listed[] = []
    let after: string | null = null
    do {
      const page: {
        spaces: { edges: { node: Listed }[]; pageInfo: { hasNextPage: boolean; endCursor: string | null } }
      } = await api.run(SPACES, { after })
      found.push(...page.spaces.edges.map(({ node }) => node))
      after = page.spaces.pageInfo.hasNextPage ? page.spaces.pageInfo.endCursor : null
    } while (after !== null)
    // Another snapshot came, whose own list is on its way.
    if (meanwhile !== changes) return
    meanwhile = null
    spaces.clear()
    for (const space of found) spaces.set(space.id, space)
    for (const change of changes) change()
    show()
  }

  const close = api.watch(
    VIEWER_EVENTS,
    {},
    {
      onData({ viewerEvents: event }) {
        if (event.__typename === 'ViewerSnapshot') fetchAll().catch((error) => notify(wordsOf(error)))
        if (event.__typename === 'ViewerSpaceAdded' || event.__typename === 'ViewerSpaceChanged') {
          take(() => spaces.set(event.space.id, event.space))
        }
        if (event.__typename === 'ViewerSpaceRemoved') {
          take(() => spaces.delete(event.spaceId))
          hooks.onGone(event.spaceId)
        }
      },
      onEnd: hooks.onEnd,
    },
  )

  return {
    element: made,
    select(spaceId) {
      selected = spaceId
      show()
    },
    close,
  }
}
