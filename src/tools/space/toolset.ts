import { getMyRunsTool } from '../runs/get-my-runs.ts'
import { stopRunTool } from '../runs/stop-run.ts'
import type { Tool } from '../tool.ts'
import type { ToolboxInput, ToolboxParts } from '../toolbox-parts.ts'
import { enterSpaceTool } from './enter-space.ts'
import { readMessagesTool } from './read-messages.ts'
import { sendMessageTool } from './send-message.ts'

/** ACTIVE_SPACE: the space entered is where everything happens. */
export function activeSpaceTools(
  { speech }: ToolboxInput,
  { history, historyLimit, runs, runProgress, lifecycle }: ToolboxParts,
): Tool[] {
  return [
    enterSpaceTool(history, historyLimit),
    sendMessageTool(speech),
    readMessagesTool(history),
    getMyRunsTool(runs, runProgress),
    stopRunTool(runs, lifecycle),
  ]
}
