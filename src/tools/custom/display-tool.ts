import type { JsonObject } from '../../lib/json.ts'
import { PLACEMENT_FIELDS } from '../placement.ts'
import type { Tool } from '../tool.ts'

/**
 * Adapts a visible tool to an agent with the toolset SPACE_TOOLS by adding input fields for the space and a
 * mention.
 */
export function displayTool(tool: Tool): Tool {
  if (tool.presence.type !== 'part') return tool
  const properties = { ...(tool.inputSchema.properties as JsonObject | undefined), ...PLACEMENT_PROPERTIES }
  return { ...tool, inputSchema: { ...tool.inputSchema, properties }, placement: PLACEMENT_FIELDS }
}

const PLACEMENT_PROPERTIES = {
  targetSpaceId: {
    type: 'string',
    description: 'Id of the space to show this in, one of YOUR SPACES. If omitted, it is not shown.',
  },
  mention: {
    type: 'string',
    description: 'Id of an agent of that space to wake once this is shown there. Needs targetSpaceId.',
  },
} satisfies Record<(typeof PLACEMENT_FIELDS)[number], JsonObject>
