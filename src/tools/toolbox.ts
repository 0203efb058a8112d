import { openToolHeaders } from '../agents/custom-tools.ts'
import type { AgentTool } from '../generated/prisma/client.ts'
import type { JsonObject } from '../lib/json.ts'
import { ownTool } from './custom/own-tool.ts'
import { knowledgeTools } from './knowledge/knowledge-tools.ts'
import { chainTools } from './routing/chain-tools.ts'
import { activeSpaceTools } from './space/toolset.ts'
import type { Tool } from './tool.ts'
import type { ToolboxInput, ToolboxParts } from './toolbox-parts.ts'

/** The tools of a run, by name: the sum of its toolset, its routing, its mind and the agent's own. */
export interface Toolbox {
  toolsFor(input: ToolboxInput): Promise<Map<string, Tool>>
}

export function createToolbox(parts: ToolboxParts): Toolbox {
  return {
    async toolsFor(input) {
      const { agent } = input.scene
      const asynchronous = agent.mind === 'PERSISTENT'
      const own = agent.tools.map((tool) => ({ ...ownToolOf(tool, parts), asynchronous }))
      const mcp = await parts.mcp.toolsFor(agent.mcpServers)
      const style = agent.toolset === 'SPACE_TOOLS' ? 'camel' : 'snake'
      const tools = [
        ...mcp,
        ...own,
        ...activeSpaceTools(input, parts),
        ...chainTools(input.scene, parts),
        ...knowledgeTools(parts, style),
      ]
      return new Map(tools.map((tool) => [tool.name, tool]))
    },
  }
}

function ownToolOf(row: AgentTool, { http, secretBox }: ToolboxParts): Tool {
  const settings = { ...row, inputSchema: row.inputSchema as JsonObject }
  return ownTool(settings, { http, headers: () => openToolHeaders(settings, secretBox) })
}
