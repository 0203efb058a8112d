import type { Viewer } from '../access/viewer.ts'
import type { NoticeSignal, RunLogEvent, SpaceLogEvent } from '../broker/topics.ts'
import type { MemberPresence } from '../spaces/presence.ts'
import type { Run, ToldRun, ToolCall } from './shapes.ts'

/** Fields of every event of a stream with cursors. */
interface AtCursor {
  cursor: string
  at: Date
}

/**
 * An event of `spaceMessages`. The objects that its ids refer to are loaded at delivery. MemberPresenceChanged is not stored;
 * its cursor is that of the last stored event.
 */
export type SpaceEvent = AtCursor & { spaceId: string } & (
    | SpaceLogEvent
    | { type: 'SpaceSnapshot' }
    | { type: 'MemberPresenceChanged'; changes: MemberPresence[] }
  )

/**
 * An event of `runEvents`. If a think cycle was rolled back, its row and its calls no longer exist when its last
 * events are delivered: these carry the last known state, and events about calls without one are not delivered.
 */
export type RunEvent = AtCursor & { runId: string; lastKnown?: Run; lastKnownCall?: ToolCall } & (
    | RunLogEvent
    | { type: 'RunSnapshot' }
  )

/** The activity of one agent in a space. */
export interface AgentActivityEvent {
  at: Date
  spaceId: string
  agentId: string
  /**
   * The agent's QUEUED, RUNNING and WAITING_TOOL runs, newest first, without a check of visibility. Null if they
   * must be loaded.
   */
  activeRuns: readonly ToldRun[] | null
}

/** An event of `viewerEvents`. */
export type ViewerEvent = { at: Date } & (
  | { type: 'ViewerSnapshot' }
  | { type: 'ViewerSpaceAdded' | 'ViewerSpaceRemoved' | 'ViewerSpaceChanged'; spaceId: string }
  | { type: 'ViewerToolCallWaiting' | 'ViewerToolCallChanged' | 'ViewerToolCallSettled'; toolCallId: string }
  | { type: 'ViewerStandingGrantChanged'; grantId: string }
  | ({ type: 'ViewerNotice' } & Omit<NoticeSignal, 'type'>)
)

/** The resolver of every subscription field: returns the event. plain-answers.ts relies on it. */
export const itself = <E>(event: E): E => event

/** The viewer of a subscription, and the callback for one that cannot keep up. */
export interface Watcher {
  viewer: Viewer
  /** Called at most once, as soon as the subscription lags too far. */
  onSlow(): void
}

/**
 * The port through which subscriptions get their events, so that its implementation can serve many subscribers
 * at once. Each iteration ends with `return()`, even while it waits, and then releases everything. It rejects
 * with NotFoundError if the viewer may not see the object, and with ForbiddenError or UnauthenticatedError when
 * the viewer loses access.
 */
export interface Streams {
  /**
   * `selectsPresence`: the operation selects the content of MemberPresenceChanged; only then does it receive these events.
   * @throws BadInputError for an invalid `after`
   */
  spaceMessages(
    watcher: Watcher,
    options: { spaceId: string; after: string | null; selectsPresence: boolean },
  ): Promise<AsyncIterable<SpaceEvent>>
  /** Ends after the last event of the run. @throws BadInputError for an invalid `after` */
  runEvents(watcher: Watcher, options: { runId: string; after: string | null }): Promise<AsyncIterable<RunEvent>>
  /** `asksMore`: the operation selects fields of runs that signals do not carry. */
  agentActivity(
    watcher: Watcher,
    options: { spaceId: string; asksMore: boolean },
  ): Promise<AsyncIterable<AgentActivityEvent>>
  viewerEvents(watcher: Watcher): Promise<AsyncIterable<ViewerEvent>>
  /** Returns for each space the cursor after which later events follow. */
  spaceCursors(spaceIds: readonly string[]): Promise<string[]>
  runCursors(runIds: readonly string[]): Promise<string[]>
}
