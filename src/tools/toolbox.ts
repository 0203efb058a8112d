import { openToolHeaders } from '../agents/custom-tools.ts'
import type { AgentTool } from '../generated/prisma/client.ts'
import type { JsonObject } from '../lib/json.ts'
import type { SecretBox } from '../platform/secret-box.ts'
import type { Lifecycle } from '../runs/lifecycle.ts'
import type { Runs } from '../runs/runs.ts'
import type { History } from '../spaces/history.ts'
import type { GuardedHttp } from './custom/guarded-http.ts'
import { ownTool } from './custom/own-tool.ts'
import type { McpToolset } from './mcp/mcp-toolset.ts'
import { activeSpaceTools } from './space/toolset.ts'
import type { RunInHand, Speech, Tool, ToolScene } from './tool.ts'

/** What decides which tools a run gets. */
export interface ToolboxInput {
  run: RunInHand
  scene: ToolScene
  speech: Speech
}

/** What tools are made from. */
export interface ToolboxParts {
  history: History
  historyLimit: number
  runs: Runs
  lifecycle: Lifecycle
  http: GuardedHttp
  secretBox: SecretBox
  mcp: McpToolset
}

/** The tools of a run, by name: the sum of its toolset, its routing, its mind and the agent's own. */
export interface Toolbox {
  toolsFor(input: ToolboxInput): Promise<Map<string, Tool>>
}

export function createToolbox(parts: ToolboxParts): Toolbox {
  return {
    async toolsFor(input) {
      const own = input.scene.agent.tools.map((tool) => ownToolOf(tool, parts))
      const mcp = await parts.mcp.toolsFor(input.scene.agent.mcpServers)
      const tools = [...mcp, ...own, ...activeSpaceTools(input, parts)]
      return new Map(tools.map((tool) => [tool.name, tool]))
    },
  }
}

function ownToolOf(row: AgentTool, { http, secretBox }: ToolboxParts): Tool {
  const settings = { ...row, inputSchema: row.inputSchema as JsonObject }
  return ownTool(settings, { http, headers: () => openToolHeaders(settings, secretBox) })
}
