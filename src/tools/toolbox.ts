import type { ApprovalPolicy } from '../agents/approval-policy.ts'
import { openHeaders } from '../agents/outgoing-request.ts'
import type { AgentTool } from '../generated/prisma/client.ts'
import type { JsonObject } from '../lib/json.ts'
import { digestOf } from '../runs/approval.ts'
import { askedApproval } from './asked-approval.ts'
import { ownTool } from './custom/own-tool.ts'
import { knowledgeTools } from './knowledge/knowledge-tools.ts'
import { delegateTool } from './routing/delegate.ts'
import { delegateToAgentTool, isOfferedDelegation } from './routing/delegate-to-agent.ts'
import { mentionAgentTool } from './routing/mention-agent.ts'
import { skipTool } from './routing/skip.ts'
import { activeSpaceTools } from './space/toolset.ts'
import { displayTool } from './space-tools/display-tool.ts'
import { spaceTools } from './space-tools/toolset.ts'
import type { Tool } from './tool.ts'
import type { OwnToolboxParts, ToolboxInput, ToolboxParts } from './toolbox-parts.ts'

/**
 * Collects the tools of a run by name: from its toolset, its routing, its agent memory mode and the agent's
 * own tools.
 */
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
      const tools = [...mcp, ...toolsetOf(input, own, parts), ...routingTools(input, parts)]
      return new Map(tools.map((tool) => [tool.name, tool]))
    },
  }
}

/** Returns the tools of the agent's toolset, with the agent's own tools adapted to it. */
function toolsetOf(input: ToolboxInput, own: Tool[], parts: ToolboxParts): Tool[] {
  if (input.scene.agent.toolset === 'ACTIVE_SPACE') {
    return [...own, ...activeSpaceTools(input, parts), ...knowledgeTools(parts, 'snake')]
  }
  return [...own.map(displayTool), ...spaceTools(input, parts), ...knowledgeTools(parts, 'camel')]
}

/** Returns the tools for MENTION_CHAIN spaces and for delegation. A persistent agent may always skip. */
function routingTools({ scene, run }: ToolboxInput, { handingOn }: ToolboxParts): Tool[] {
  const { agent, spaces } = scene
  const isInChainSpace = spaces.some(({ routing }) => routing === 'MENTION_CHAIN')
  const namesItsSpaces = agent.toolset === 'SPACE_TOOLS'
  return [
    ...(isInChainSpace ? [mentionAgentTool(handingOn, namesItsSpaces), delegateTool(handingOn, namesItsSpaces)] : []),
    ...(isInChainSpace || agent.mind === 'PERSISTENT' ? [skipTool(handingOn, agent.mind)] : []),
    ...(isOfferedDelegation(scene, run.claim.run) ? [delegateToAgentTool(handingOn)] : []),
  ]
}

/** Builds an agent's own tool, with its approval policy. */
export function ownToolOf(row: AgentTool, { http, secretBox, limits }: OwnToolboxParts): Tool {
  const settings = { ...row, inputSchema: row.inputSchema as JsonObject }
  const { name, description, inputSchema, execution, url } = settings
  const versionDigest = digestOf({ name, description, inputSchema, execution, url })
  const tool = {
    ...ownTool(settings, { http, headers: () => openHeaders('tool', settings, secretBox) }),
    versionDigest,
  }
  const policy = row.approval as ApprovalPolicy | null
  if (policy === null) return tool
  const terms = { ...settings, versionDigest, answerMs: tool.waitMs ?? null }
  return { ...tool, approval: askedApproval(policy, terms, limits) }
}
