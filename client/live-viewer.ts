import type { Connection } from './connection.ts'
import { errorOf, type ParleyError } from './errors.ts'
import type {
  LiveViewerEventsSubscription,
  LiveViewerStateFragment,
  LiveWaitingCallFragment,
} from './generated/graphql.ts'
import { createListedSpaces, type ListedSpace } from './listed-spaces.ts'
import { createObservable, type Observable } from './observable.ts'
import { VIEWER_EVENTS } from './operations.ts'

export type Viewer = Omit<LiveViewerStateFragment, 'pendingToolCalls' | 'unreadCount'>
/** A call that waits for an answer which the viewer may give, with where it shows. */
export type WaitingCall = LiveWaitingCallFragment
type ViewerEvent = LiveViewerEventsSubscription['viewerEvents']

/** What a side bar needs, over all the viewer's spaces. */
export interface ViewerState {
  status: 'loading' | 'live' | 'ended'
  viewer: Viewer | null
  /** Those with the last activity first. */
  spaces: readonly ListedSpace[]
  /** Whether all spaces are there; with very many, the list comes page by page. */
  hasAllSpaces: boolean
  /** Over all spaces. */
  unreadCount: number
  /** Oldest first. */
  pendingToolCalls: readonly WaitingCall[]
  error: ParleyError | null
}

export type LiveViewer = Observable<ViewerState>

const EMPTY: ViewerState = {
  status: 'loading',
  viewer: null,
  spaces: [],
  hasAllSpaces: false,
  unreadCount: 0,
  pendingToolCalls: [],
  error: null,
}

/** Who the token stands for, its spaces and what waits for it, live while somebody listens. */
export function liveViewer(connection: Connection): LiveViewer {
  let state = EMPTY
  const spaces = createListedSpaces(connection, () => observable.changed())
  const observable = createObservable({
    read: () => ({ ...state, spaces: spaces.inOrder(), unreadCount: spaces.unreadCount() }),
    start: () => {
      const stop = connection.watch(
        VIEWER_EVENTS,
        {},
        {
          onData: ({ viewerEvents }) => take(viewerEvents),
          onEnd: (error) => set({ status: 'ended', error }),
        },
      )
      return () => {
        spaces.stopLoading()
        stop()
      }
    },
  })

  function set(change: Partial<ViewerState>): void {
    state = { ...state, ...change }
    observable.changed()
  }

  const setCalls = (pendingToolCalls: readonly WaitingCall[]) => set({ pendingToolCalls })
  const callsBut = (isGone: (call: WaitingCall) => boolean) => state.pendingToolCalls.filter((call) => !isGone(call))

  function begin(event: Extract<ViewerEvent, { __typename: 'ViewerSnapshot' }>): void {
    const { pendingToolCalls, unreadCount: _, ...viewer } = event.viewer
    set({ status: 'live', viewer, pendingToolCalls, error: null })
    spaces
      .load()
      .then((isWhole) => isWhole && set({ hasAllSpaces: true }))
      .catch((failure) => set({ error: errorOf(failure) }))
  }

  function take(event: ViewerEvent): void {
    switch (event.__typename) {
      case 'ViewerSnapshot':
        begin(event)
        break
      case 'ViewerSpaceAdded':
      case 'ViewerSpaceChanged':
        spaces.put(event.space)
        break
      case 'ViewerSpaceRemoved':
        spaces.remove(event.spaceId)
        setCalls(callsBut(({ message }) => message?.space.id === event.spaceId))
        break
      case 'ViewerToolCallWaiting':
        setCalls([...callsBut(({ id }) => id === event.toolCall.id), event.toolCall])
        break
      case 'ViewerToolCallChanged':
        // One that the viewer may not answer any more waits for it no longer.
        setCalls(state.pendingToolCalls.map((call) => (call.id === event.toolCall.id ? event.toolCall : call)))
        break
      case 'ViewerToolCallSettled':
        setCalls(callsBut(({ id }) => id === event.toolCall.id))
        break
      default:
        // Of a kind to come.
        break
    }
  }

  return { getState: observable.getState, subscribe: observable.subscribe }
}
