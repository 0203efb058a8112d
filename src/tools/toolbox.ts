import type { RemoteAgents } from './a2a/remote-agents.ts'
import { builtInTools } from './built-in-tools.ts'
import { displayTool } from './custom/display-tool.ts'
import { type OwnToolParts, ownToolOf } from './custom/own-tool.ts'
import type { ToolInput, ToolParts } from './define-tool.ts'
import type { McpToolset } from './mcp/mcp-toolset.ts'
import type { Tool } from './tool.ts'

/** Collects the tools of a run by name: the agent's own tools and the built-in tools. */
export interface Toolbox {
  toolsFor(input: ToolInput): Promise<Map<string, Tool>>
}

export interface ToolboxParts extends ToolParts, OwnToolParts {
  mcp: McpToolset
  remotes: Pick<RemoteAgents, 'toolFor'>
}

export function createToolbox(parts: ToolboxParts): Toolbox {
  return {
    async toolsFor(input) {
      const { agent } = input.scene
      const asynchronous = agent.mind === 'PERSISTENT'
      const own = agent.tools.map((row) => ({ ...ownToolOf(row, parts), asynchronous }))
      const ofToolset = agent.toolset === 'ACTIVE_SPACE' ? own : own.map(displayTool)
      const mcp = await parts.mcp.toolsFor(agent.mcpServers, input.run)
      // If a built-in tool was added later than an agent's own tool of the same name, the agent keeps its own tool.
      const names = new Set(ofToolset.map(({ name }) => name))
      const builtIn = builtInTools(parts, input).filter(({ name }) => !names.has(name))
      const remote = parts.remotes.toolFor(agent)
      const tools = [...mcp, ...ofToolset, ...builtIn, ...(remote === null ? [] : [remote])]
      return new Map(tools.map((tool) => [tool.name, tool]))
    },
  }
}
