import type { Viewer } from '../access/viewer.ts'
import type { RunLogEvent, SpaceLogEvent } from '../realtime/topics.ts'
import type { Run, ToldRun, ToolCall } from './shapes.ts'

/** What every event of a stream with cursors carries. */
interface AtCursor {
  cursor: string
  at: Date
}

/** An event of `spaceMessages`: what it names is loaded when it is delivered. */
export type SpaceEvent = AtCursor & { spaceId: string } & (SpaceLogEvent | { type: 'SpaceSnapshot' })

/**
 * An event of `runEvents`. A cycle that was rolled back is gone when its end is delivered, and so are its calls: those of
 * which nothing is known any more are not told of.
 */
export type RunEvent = AtCursor & { runId: string; lastKnown?: Run; lastKnownCall?: ToolCall } & (
    | RunLogEvent
    | { type: 'RunSnapshot' }
  )

/** One agent of a space, and what it does now. */
export interface AgentActivityEvent {
  at: Date
  spaceId: string
  agentId: string
  /** Its QUEUED, RUNNING and WAITING_TOOL runs, newest first, whoever may see them; null where they are to be looked up. */
  activeRuns: readonly ToldRun[] | null
}

/** An event of `viewerEvents`. */
export type ViewerEvent = { at: Date } & (
  | { type: 'ViewerSnapshot' }
  | { type: 'ViewerSpaceAdded' | 'ViewerSpaceRemoved' | 'ViewerSpaceChanged'; spaceId: string }
  | { type: 'ViewerToolCallWaiting' | 'ViewerToolCallChanged' | 'ViewerToolCallSettled'; toolCallId: string }
)

/** How each subscription field resolves: an event is what it was told as. Subscriptions are answered by this (plain-answers.ts). */
export const itself = <E>(event: E): E => event

/** Who watches, and what becomes of a watcher that cannot keep up. */
export interface Watcher {
  viewer: Viewer
  /** Called at most once, as soon as it is found too far behind. */
  onSlow(): void
}

/**
 * Where the subscriptions get their events: a port, so that what stands behind it may serve many subscribers at once. Each
 * iteration ends by `return()`, also while it waits, and then holds nothing; it rejects with NotFoundError for what the
 * viewer may not see, with ForbiddenError or UnauthenticatedError once that is so.
 */
export interface Streams {
  /** @throws BadInputError for an `after` that is no cursor. */
  spaceMessages(
    watcher: Watcher,
    options: { spaceId: string; after: string | null },
  ): Promise<AsyncIterable<SpaceEvent>>
  /** Ends after the run's end. @throws BadInputError for an `after` that is no cursor. */
  runEvents(watcher: Watcher, options: { runId: string; after: string | null }): Promise<AsyncIterable<RunEvent>>
  /** `asksMore`: what is asked of runs is more than what is told of them. */
  agentActivity(
    watcher: Watcher,
    options: { spaceId: string; asksMore: boolean },
  ): Promise<AsyncIterable<AgentActivityEvent>>
  viewerEvents(watcher: Watcher): Promise<AsyncIterable<ViewerEvent>>
  /** For each the cursor after which everything later comes. */
  spaceCursors(spaceIds: readonly string[]): Promise<string[]>
  runCursors(runIds: readonly string[]): Promise<string[]>
}
