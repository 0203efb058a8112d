import { getMyRunsTool } from '../runs/get-my-runs.ts'
import { stopRunTool } from '../runs/stop-run.ts'
import type { Tool } from '../tool.ts'
import type { ToolboxInput, ToolboxParts } from '../toolbox-parts.ts'
import { enterSpaceTool } from './enter-space.ts'
import { readMessagesTool } from './read-messages.ts'
import { sendMessageTool } from './send-message.ts'

/** ACTIVE_SPACE: calls apply to the space that the run has entered. */
export function activeSpaceTools(
  { speech, scene }: ToolboxInput,
  { history, discretion, historyLimit, runs, runProgress, inbox, lifecycle }: ToolboxParts,
): Tool[] {
  const isMember = (spaceId: string) => scene.spaces.some(({ id }) => id === spaceId)
  return [
    enterSpaceTool({ history, discretion }, historyLimit),
    sendMessageTool(speech),
    readMessagesTool({ history, discretion }),
    getMyRunsTool(runs, { progress: runProgress, inbox, isMember, discretion }),
    stopRunTool(runs, lifecycle),
  ]
}
