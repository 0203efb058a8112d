import type { AgentTool, McpServer } from '../generated/prisma/client.ts'
import type { JsonObject } from '../lib/json.ts'
import type { Tx } from '../platform/db.ts'
import { digestOf } from '../rules/approvals.ts'
import { endGrantsOfOtherVersions, type PublishedGrant } from '../stores/grant-store.ts'
import type { ApprovalPolicy } from './approval-policy.ts'
import type { ListedMcpTool } from './mcp-servers.ts'
import { mcpToolName } from './tool-names.ts'

/** The digests that bind people's decisions to the version of a tool. */
export interface ToolVersion {
  /** The digest of the tool's definition, execution and address. Approvals are bound to it. */
  versionDigest: string
  /**
   * The digest that also includes the approval policy. Standing grants are bound to it. Null if no grant is possible.
   */
  grantDigest: string | null
}

/** Whether calls to a tool need approval, and whether a standing grant can give this approval. */
interface Asking {
  approval: ApprovalPolicy | null
  alwaysAsk: boolean
}

function versionOf(versionDigest: string, { approval, alwaysAsk }: Asking): ToolVersion {
  const isGrantable = approval !== null && !alwaysAsk
  return { versionDigest, grantDigest: isGrantable ? digestOf({ version: versionDigest, approval }) : null }
}

/** Returns the version of an agent's own tool. */
export function versionOfTool(tool: AgentTool): ToolVersion {
  const { name, description, execution, url, method, alwaysAsk } = tool
  const inputSchema = tool.inputSchema as JsonObject
  const approval = tool.approval as ApprovalPolicy | null
  // A tool without a method keeps the digest that it had before methods were introduced.
  const definition = { name, description, inputSchema, execution, url }
  const digest = digestOf(method === null ? definition : { ...definition, method })
  return versionOf(digest, { approval, alwaysAsk })
}

/** Returns the version of a tool of an MCP server. `toolName` is the tool's name on the server. */
export function versionOfMcpTool(server: McpServer, tool: { toolName: string; fingerprint: string }): ToolVersion {
  const { name: serverName, url, alwaysAskTools } = server
  const alwaysAsk = alwaysAskTools.includes(tool.toolName)
  const { toolName, fingerprint } = tool
  const approval = policyOfMcpTool(server, toolName)
  return versionOf(digestOf({ serverName, url, toolName, fingerprint }), { approval, alwaysAsk })
}

/** Returns the approval policy of a tool of an MCP server; null if its calls need no approval. */
export function policyOfMcpTool(
  { approval, approvalTools }: Pick<McpServer, 'approval' | 'approvalTools'>,
  toolName: string,
): ApprovalPolicy | null {
  const named = approvalTools as string[] | null
  return named === null || named.includes(toolName) ? (approval as ApprovalPolicy | null) : null
}

/**
 * Returns the versions of an agent's tools by name. For tools of MCP servers, these are the versions in the server's
 * latest list.
 */
export async function readToolVersions(tx: Tx, agentId: string): Promise<Map<string, ToolVersion>> {
  const tools = await tx.agentTool.findMany({ where: { agentId } })
  const servers = await tx.mcpServer.findMany({ where: { agentId } })
  const ofServers = servers.flatMap((server) =>
    ((server.listing ?? []) as unknown as ListedMcpTool[]).map(
      ({ name: toolName, fingerprint }) =>
        [mcpToolName(server.name, toolName), versionOfMcpTool(server, { toolName, fingerprint })] as const,
    ),
  )
  return new Map([...tools.map((tool) => [tool.name, versionOfTool(tool)] as const), ...ofServers])
}

/** Ends the standing grants of tools that were changed or removed. Returns the ended grants, for the caller to publish. */
export async function endGrantsOfChangedTools(tx: Tx, agentId: string): Promise<PublishedGrant[]> {
  return endGrantsOfOtherVersions(tx, agentId, await readToolVersions(tx, agentId))
}
