import type { Toolset } from '../generated/prisma/client.ts'
import { type ToolDefinition, type ToolInput, type ToolParts, toolOf } from './define-tool.ts'
import { readFile } from './files/read-file.ts'
import { sendFile } from './files/send-file.ts'
import { deleteGoals, setGoals } from './knowledge/goals.ts'
import { deleteMemories, setMemories } from './knowledge/memories.ts'
import { deletePlans, getPlans, setPlans } from './knowledge/plans.ts'
import { delegate } from './routing/delegate.ts'
import { delegateToAgent } from './routing/delegate-to-agent.ts'
import { mentionAgent } from './routing/mention-agent.ts'
import { skip } from './routing/skip.ts'
import { getMyRuns } from './runs/get-my-runs.ts'
import { stopRun } from './runs/stop-run.ts'
import { deleteMessage, editMessage, react } from './space/change-messages.ts'
import { enterSpace } from './space/enter-space.ts'
import { readMessages } from './space/read-messages.ts'
import { searchMessages } from './space/search-messages.ts'
import { sendMessage } from './space/send-message.ts'
import type { Tool } from './tool.ts'

/** The tools that both toolsets list in the same order. */
const OF_EACH_TOOLSET = [
  readFile,
  sendFile,
  searchMessages,
  getMyRuns,
  stopRun,
  setMemories,
  deleteMemories,
  setGoals,
  deleteGoals,
  setPlans,
  getPlans,
  deletePlans,
  mentionAgent,
  delegate,
  skip,
  delegateToAgent,
  editMessage,
  deleteMessage,
  react,
]

/**
 * All built-in tools by toolset, in the order in which a model sees them. A toolset contains only the tools that
 * have a name for it. The order of the space tools differs between the toolsets.
 */
export const TOOLS: Record<Toolset, readonly ToolDefinition[]> = {
  ACTIVE_SPACE: [enterSpace, sendMessage, readMessages, ...OF_EACH_TOOLSET],
  SPACE_TOOLS: [readMessages, sendMessage, ...OF_EACH_TOOLSET],
}

const ALL = [...TOOLS.ACTIVE_SPACE, ...TOOLS.SPACE_TOOLS]
const LATER: ReadonlySet<string> = new Set(
  ALL.filter(({ yieldsToOwn }) => yieldsToOwn).flatMap(({ names }) => Object.values(names)),
)

/** Whether an agent may have its own tool with this name, created before the built-in tool was added. */
export const mayBeOlder = (name: string): boolean => LATER.has(name)

/** Returns the built-in tools of a run. */
export function builtInTools(parts: ToolParts, input: ToolInput): Tool[] {
  return TOOLS[input.scene.agent.toolset].flatMap((definition) => toolOf(definition, parts, input) ?? [])
}
