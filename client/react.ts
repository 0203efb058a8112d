import { useMemo, useSyncExternalStore } from 'react'
import type { Connection } from './connection.ts'
import { type LiveRun, liveRun, type RunState } from './live-run.ts'
import { type LiveSpace, type LiveSpaceOptions, liveSpace, type SpaceState } from './live-space.ts'
import { liveViewer, type ViewerState } from './live-viewer.ts'
import type { Observable } from './observable.ts'

/** Returns the state of an observable, and renders again when it changes. */
export function useLive<State>(live: Observable<State>): State {
  return useSyncExternalStore(live.subscribe, live.getState, live.getState)
}

/** Follows a space while the component is mounted. Returns its state and actions. */
export function useSpace(
  connection: Connection,
  spaceId: string,
  {
    withActivity = true,
    withPresence = false,
    rootsOnly = false,
    viewerId = null,
  }: Omit<LiveSpaceOptions, 'spaceId'> = {},
): SpaceState & Omit<LiveSpace, 'getState' | 'subscribe'> {
  const live = useMemo(
    () => liveSpace(connection, { spaceId, withActivity, withPresence, rootsOnly, viewerId }),
    [connection, spaceId, withActivity, withPresence, rootsOnly, viewerId],
  )
  const state = useLive(live)
  return useMemo(() => {
    const { getState: _, subscribe: __, ...actions } = live
    return { ...state, ...actions }
  }, [state, live])
}

/** Follows a run while the component is mounted. */
export function useRun(connection: Connection, runId: string): RunState & Pick<LiveRun, 'stop'> {
  const live = useMemo(() => liveRun(connection, { runId }), [connection, runId])
  const state = useLive(live)
  return useMemo(() => ({ ...state, stop: live.stop }), [state, live])
}

/** Follows the viewer, their spaces and the calls that wait for them. */
export function useViewer(connection: Connection): ViewerState {
  return useLive(useMemo(() => liveViewer(connection), [connection]))
}
