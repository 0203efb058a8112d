// The public API of `parley-client`, for any framework.
export {
  type Connection,
  type ConnectionOptions,
  createConnection,
  type Watcher,
} from './connection.ts'
export { ParleyError, payloadOf } from './errors.ts'
export type { Operation } from './graphql.ts'
export type { ListedSpace } from './listed-spaces.ts'
export { type LiveRun, liveRun, type RunState } from './live-run.ts'
export {
  type AgentActivity,
  type LiveSpace,
  type LiveSpaceOptions,
  liveSpace,
  type MemberPresence,
  newIdempotencyKey,
  type Outgoing,
  type SpaceState,
} from './live-space.ts'
export type { LiveThread, ThreadState } from './live-thread.ts'
export {
  type LiveViewer,
  liveViewer,
  type Viewer,
  type ViewerNotice,
  type ViewerState,
  type WaitingCall,
} from './live-viewer.ts'
export type { Observable } from './observable.ts'
export type { ConnectionState } from './renewed-socket.ts'
export type { Run, RunStep, ToolCall } from './run-record.ts'
export type { Message, MessagePart } from './space-events.ts'
export type { ThreadSummary } from './thread-counts.ts'
export type { Space } from './transcript.ts'
