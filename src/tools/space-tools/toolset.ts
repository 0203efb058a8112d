import type { Tool } from '../tool.ts'
import type { ToolboxInput, ToolboxParts } from '../toolbox-parts.ts'
import { getMyRunsTool } from './get-my-runs.ts'
import { readSpaceMessagesTool } from './read-space-messages.ts'
import { sendSpaceMessageTool } from './send-space-message.ts'

/** SPACE_TOOLS: every call names its space. */
export function spaceTools({ speech, scene }: ToolboxInput, parts: ToolboxParts): Tool[] {
  const { runs, runProgress } = parts
  if (speech.composite === null) throw new Error('a SPACE_TOOLS run has no composite speech')
  const isChain = (spaceId: string) =>
    scene.spaces.some(({ id, routing }) => id === spaceId && routing === 'MENTION_CHAIN')
  return [
    readSpaceMessagesTool(parts),
    sendSpaceMessageTool({ ...parts, speech: speech.composite, isChain }),
    getMyRunsTool(runs, runProgress, {
      isMember: (spaceId) => scene.spaces.some(({ id }) => id === spaceId),
      discretion: parts.discretion,
    }),
  ]
}
