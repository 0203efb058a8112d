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
/** A tool call that waits for an answer from the viewer, with the message that shows the call. */
export type WaitingCall = LiveWaitingCallFragment
type ViewerEvent = LiveViewerEventsSubscription['viewerEvents']
/** A notification for the viewer. `number` increases with each notification. */
export interface ViewerNotice extends Pick<NoticeEvent, 'kind' | 'messageId' | 'toolCallId' | 'runId'> {
  spaceId: string | null
  number: number
}
type NoticeEvent = Extract<ViewerEvent, { __typename: 'ViewerNotice' }>

const MOST_NOTICES = 20

/** The state of all spaces of the viewer, for a sidebar. */
export interface ViewerState {
  status: 'loading' | 'live' | 'ended'
  viewer: Viewer | null
  /** The spaces, those with the latest activity first. */
  spaces: readonly ListedSpace[]
  /** Whether all spaces are loaded. A long list is loaded page by page. */
  hasAllSpaces: boolean
  /** The number of unread messages in all spaces. */
  unreadCount: number
  /** The waiting calls, oldest first. */
  pendingToolCalls: readonly WaitingCall[]
  /** Increases when standing grants that the viewer may see have changed, or may have changed. */
  grantsVersion: number
  /** The last 20 notices that arrived while there were listeners, oldest first. */
  notices: readonly ViewerNotice[]
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
  grantsVersion: 0,
  notices: [],
  error: null,
}

/** Follows the viewer, their spaces and the calls that wait for them while there are listeners. */
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
    set({ status: 'live', viewer, pendingToolCalls, grantsVersion: state.grantsVersion + 1, error: null })
    spaces
      .load()
      .then((isWhole) => isWhole && set({ hasAllSpaces: true }))
      .catch((failure) => set({ error: errorOf(failure) }))
  }

  function addNotice({ __typename, noticeSpaceId: spaceId, ...ids }: NoticeEvent): void {
    const number = (state.notices.at(-1)?.number ?? 0) + 1
    set({ notices: [...state.notices, { ...ids, spaceId, number }].slice(-MOST_NOTICES) })
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
      case 'ViewerStandingGrantChanged':
        set({ grantsVersion: state.grantsVersion + 1 })
        break
      case 'ViewerNotice':
        addNotice(event)
        break
      case 'ViewerToolCallWaiting':
        setCalls([...callsBut(({ id }) => id === event.toolCall.id), event.toolCall])
        break
      case 'ViewerToolCallChanged':
        // Do not add a call that is not in the list, because the viewer may no longer answer it.
        setCalls(state.pendingToolCalls.map((call) => (call.id === event.toolCall.id ? event.toolCall : call)))
        break
      case 'ViewerToolCallSettled':
        setCalls(callsBut(({ id }) => id === event.toolCall.id))
        break
      default:
        // Ignore event types of newer servers.
        break
    }
  }

  return { getState: observable.getState, subscribe: observable.subscribe }
}
