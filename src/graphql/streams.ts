import type { Viewer } from '../access/viewer.ts'
import type { NoticeSignal, RunLogEvent, SpaceLogEvent } from '../broker/topics.ts'
import type { MemberPresence } from '../spaces/presence.ts'
import type { Run, ToldRun, ToolCall } from './shapes.ts'

/** The fields of every event in a stream with cursors. */
interface AtCursor {
  cursor: string
  at: Date
}

/**
 * An event of `spaceMessages`. The objects to which its ids refer are loaded at delivery. MemberPresenceChanged is
 * not stored, so its cursor is the one of the last stored event.
 */
export type SpaceEvent = AtCursor & { spaceId: string } & (
    | SpaceLogEvent
    | { type: 'SpaceSnapshot' }
    | { type: 'MemberPresenceChanged'; changes: MemberPresence[] }
  )

/**
 * An event of `runEvents`. If a think cycle was rolled back, its row and its calls no longer exist when its last
 * events are delivered. These events contain the last known state; events about calls without a known state are not
 * delivered.
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

/** The resolver of every subscription field, which returns the event unchanged. plain-answers.ts relies on this. */
export const itself = <E>(event: E): E => event

/** The viewer of a subscription, and a callback for the case that its client cannot keep up. */
export interface Watcher {
  viewer: Viewer
  /** Called at most once, when the subscription lags too far behind. */
  onSlow(): void
}

/**
 * The port from which subscriptions get their events. It lets the implementation serve many subscribers together.
 * Each iteration ends with `return()`, even while it waits, and then releases its resources. It rejects with
 * NotFoundError if the viewer may not see the object, and with ForbiddenError or UnauthenticatedError when the
 * viewer loses access.
 */
export interface Streams {
  /**
   * `selectsPresence`: whether the operation selects fields of MemberPresenceChanged; otherwise it does not receive
   * these events.
   * @throws BadInputError if `after` is invalid
   */
  spaceMessages(
    watcher: Watcher,
    options: { spaceId: string; after: string | null; selectsPresence: boolean },
  ): Promise<AsyncIterable<SpaceEvent>>
  /**
   * Ends after the last event of the run.
   * @throws BadInputError if `after` is invalid
   */
  runEvents(watcher: Watcher, options: { runId: string; after: string | null }): Promise<AsyncIterable<RunEvent>>
  /** `asksMore`: whether the operation selects fields of runs that signals do not contain. */
  agentActivity(
    watcher: Watcher,
    options: { spaceId: string; asksMore: boolean },
  ): Promise<AsyncIterable<AgentActivityEvent>>
  viewerEvents(watcher: Watcher): Promise<AsyncIterable<ViewerEvent>>
  /** Returns the current cursor of each space, from which a subscription continues with later events. */
  spaceCursors(spaceIds: readonly string[]): Promise<string[]>
  runCursors(runIds: readonly string[]): Promise<string[]>
}
