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
 * An event of `spaceMessages`. The objects that its ids refer to are loaded at delivery. MemberPresenceChanged is
 * not stored, so it has the cursor of the last stored event.
 */
export type SpaceEvent = AtCursor & { spaceId: string } & (
    | SpaceLogEvent
    | { type: 'SpaceSnapshot' }
    | { type: 'MemberPresenceChanged'; changes: MemberPresence[] }
  )

/**
 * An event of `runEvents`. If a think cycle was rolled back, its row and its calls no longer exist when its last
 * events are delivered. These events contain the last known state. An event about a call is not delivered if no
 * state of the call is known.
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
   * The agent's QUEUED, RUNNING and WAITING_TOOL runs, newest first, without a check of visibility. Null if the
   * runs must be loaded.
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

/** The resolver of every subscription field. It returns the event unchanged, and plain-answers.ts relies on this. */
export const itself = <E>(event: E): E => event

/** The viewer of a subscription, and a callback for clients that cannot keep up. */
export interface Watcher {
  viewer: Viewer
  /** Called at most once, when the subscription lags too far behind. */
  onSlow(): void
}

/**
 * The interface through which subscriptions get their events. It allows the implementation to serve many
 * subscribers together. Calling `return()` ends an iteration even while it waits, and releases its resources. An
 * iteration rejects with NotFoundError if the viewer may not see the object, and with ForbiddenError or
 * UnauthenticatedError when the viewer loses access.
 */
export interface Streams {
  /**
   * `selectsPresence`: whether the operation selects fields of MemberPresenceChanged. An operation that does not
   * select these fields does not receive these events.
   * @throws BadInputError if `after` is invalid
   */
  spaceMessages(
    watcher: Watcher,
    options: { spaceId: string; after: string | null; selectsPresence: boolean },
  ): Promise<AsyncIterable<SpaceEvent>>
  /**
   * Returns the events of a run, and ends after the last one.
   * @throws BadInputError if `after` is invalid
   */
  runEvents(watcher: Watcher, options: { runId: string; after: string | null }): Promise<AsyncIterable<RunEvent>>
  /** `asksMore`: whether the operation selects run fields that signals do not contain. */
  agentActivity(
    watcher: Watcher,
    options: { spaceId: string; asksMore: boolean },
  ): Promise<AsyncIterable<AgentActivityEvent>>
  viewerEvents(watcher: Watcher): Promise<AsyncIterable<ViewerEvent>>
  /** Returns the current cursor of each space. A subscription that starts at this cursor receives the later events. */
  spaceCursors(spaceIds: readonly string[]): Promise<string[]>
  runCursors(runIds: readonly string[]): Promise<string[]>
}
