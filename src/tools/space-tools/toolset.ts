import type { Tool } from '../tool.ts'
import type { ToolboxInput, ToolboxParts } from '../toolbox-parts.ts'
import { getMyRunsTool } from './get-my-runs.ts'
import { readSpaceMessagesTool } from './read-space-messages.ts'
import { sendSpaceMessageTool } from './send-space-message.ts'

/** SPACE_TOOLS: every call names its space. */
export function spaceTools({ speech }: ToolboxInput, parts: ToolboxParts): Tool[] {
  const { history, runs, runProgress, replies, inbox, clock } = parts
  if (speech.composite === null) throw new Error('this run is heard in the space that it has entered')
  return [
    readSpaceMessagesTool(history),
    sendSpaceMessageTool({ speech: speech.composite, replies, inbox, clock }),
    getMyRunsTool(runs, runProgress),
  ]
}
