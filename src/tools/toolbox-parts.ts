import type { Goals } from '../agents/goals.ts'
import type { Inbox } from '../agents/inbox.ts'
import type { Memories } from '../agents/memories.ts'
import type { Discretion } from '../confidence/discretion.ts'
import type { Plans } from '../plans/plans.ts'
import type { SecretBox } from '../platform/secret-box.ts'
import type { HandingOn } from '../runs/handing-on.ts'
import type { Lifecycle } from '../runs/lifecycle.ts'
import type { ReplyWaits } from '../runs/reply-waits.ts'
import type { RunProgress } from '../runs/run-progress.ts'
import type { Runs } from '../runs/runs.ts'
import type { History } from '../spaces/history.ts'
import type { Replies } from '../spaces/replies.ts'
import type { GuardedHttp } from './custom/guarded-http.ts'
import type { McpToolset } from './mcp/mcp-toolset.ts'
import type { RunInHand, Speech, ToolScene } from './tool.ts'

/** The input that decides which tools a run gets. */
export interface ToolboxInput {
  run: RunInHand
  scene: ToolScene
  speech: Speech
}

/** The dependencies of an agent's own tools. */
export interface OwnToolboxParts {
  http: GuardedHttp
  secretBox: SecretBox
  limits: { toolWaitSeconds: number }
}

/** The dependencies of all tools. */
export interface ToolboxParts extends OwnToolboxParts {
  discretion: Discretion
  history: History
  historyLimit: number
  runs: Runs
  runProgress: RunProgress
  replies: Replies
  replyWaits: ReplyWaits
  inbox: Inbox
  lifecycle: Lifecycle
  mcp: McpToolset
  memories: Memories
  goals: Goals
  plans: Plans
  handingOn: HandingOn
}
