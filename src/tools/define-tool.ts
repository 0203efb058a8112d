import type { Goals } from '../agents/goals.ts'
import type { Inbox } from '../agents/inbox.ts'
import type { Memories } from '../agents/memories.ts'
import type { BuiltInToolName } from '../agents/tool-names.ts'
import type { Discretion } from '../confidentiality/discretion.ts'
import type { FileReading } from '../files/file-reading.ts'
import type { DelegationChecks } from '../flows/delegation-checks.ts'
import type { MessageDeletions } from '../flows/delete-message.ts'
import type { MessageEdits } from '../flows/edit-message.ts'
import type { Lifecycle } from '../flows/lifecycle.ts'
import type { MessageReach } from '../flows/message-access.ts'
import type { Reacting } from '../flows/react.ts'
import type { ReplyWaits } from '../flows/settle-wait.ts'
import type { Uploads } from '../flows/upload-file.ts'
import type { Toolset } from '../generated/prisma/client.ts'
import type { Plans } from '../plans/plans.ts'
import type { ClaimedRun } from '../runs/claiming.ts'
import type { RunProgress } from '../runs/run-progress.ts'
import type { Runs } from '../runs/runs.ts'
import type { History } from '../spaces/history.ts'
import type { Replies } from '../spaces/replies.ts'
import type { Search } from '../spaces/search.ts'
import type { Speech, Tool, ToolScene } from './tool.ts'

/** The dependencies of the built-in tools. */
export interface ToolParts {
  discretion: Discretion
  history: History
  historyLimit: number
  search: Search
  runs: Runs
  runProgress: RunProgress
  replies: Replies
  replyWaits: ReplyWaits
  inbox: Inbox
  lifecycle: Lifecycle
  memories: Memories
  goals: Goals
  plans: Plans
  delegationChecks: DelegationChecks
  files: Pick<FileReading, 'readableBy' | 'textPart' | 'pictureOf'> & Pick<Uploads, 'createBy'>
  messageReach: MessageReach
  messageEdits: Pick<MessageEdits, 'editOwn'>
  messageDeletions: Pick<MessageDeletions, 'deleteOwn'>
  reacting: Pick<Reacting, 'reactAs'>
}

/** The run for which tools are created. */
export interface ToolInput {
  run: Pick<ClaimedRun, 'id' | 'triggerSpaceId'>
  scene: ToolScene
  speech: Speech
}

/**
 * Whether a tool acts in the space that the run has entered (`active`), or in the space that the call names
 * (`named`).
 */
export type ToolPlace = 'active' | 'named'

const PLACES: Record<Toolset, ToolPlace> = { ACTIVE_SPACE: 'active', SPACE_TOOLS: 'named' }

/** The input of a definition: the run, the dependencies, and where the tool acts. */
export interface ToolSetting extends ToolInput {
  parts: ToolParts
  place: ToolPlace
}

/** A built-in tool with its names in both toolsets. */
export interface ToolDefinition {
  /**
   * The tool's names in the toolsets ACTIVE_SPACE (`snake`) and SPACE_TOOLS (`camel`). A toolset without a name
   * here lacks the tool.
   */
  names: { snake?: BuiltInToolName; camel?: BuiltInToolName }
  /**
   * Set if the tool was added when agents could already have a tool of the same name. Such an agent keeps its own
   * tool instead.
   */
  yieldsToOwn?: true
  /** Whether a run gets the tool. By default, every run does. */
  isOffered?(input: ToolInput): boolean
  /** Creates the tool for a run. By default, its calls are not shown in spaces. */
  create(setting: ToolSetting): ToolBody
}

export type ToolBody = Pick<Tool, 'description' | 'inputSchema' | 'execute'> & Partial<Pick<Tool, 'presence'>>

/** Defines a built-in tool. `TOOLS` lists the definitions. */
export const defineTool = (definition: ToolDefinition): ToolDefinition => definition

/** Returns the tool for a run; null if the run's toolset lacks the tool, or `isOffered` excludes the run. */
export function toolOf({ names, isOffered, create }: ToolDefinition, parts: ToolParts, input: ToolInput): Tool | null {
  const { toolset } = input.scene.agent
  const name = toolset === 'ACTIVE_SPACE' ? names.snake : names.camel
  if (name === undefined || isOffered?.(input) === false) return null
  const tool = create({ ...input, parts, place: PLACES[toolset] })
  return { name, presence: { type: 'hidden' }, execution: null, ...tool }
}

/** Whether the run's agent is a member of the space, so that the run may see it. True if `spaceId` is null. */
export function isMemberOf({ scene }: Pick<ToolInput, 'scene'>, spaceId: string | null): boolean {
  return spaceId === null || scene.spaces.some(({ id }) => id === spaceId)
}
