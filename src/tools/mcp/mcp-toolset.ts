import { policyOfMcpTool, versionOfMcpTool } from '../../agents/tool-versions.ts'
import type { McpServer } from '../../generated/prisma/client.ts'
import { messageOf } from '../../lib/errors.ts'
import type { JsonObject } from '../../lib/json.ts'
import type { Platform } from '../../platform/platform.ts'
import { askedApproval } from '../asked-approval.ts'
import { type ApprovedCall, type Tool, ToolFailure } from '../tool.ts'
import { type McpTool, mayBeOf } from './definitions.ts'
import { accessTo, createListingKeeper } from './listing-keeper.ts'
import type { McpListing, McpServerAccess, McpTools } from './mcp-tools.ts'
import type { McpOAuth } from './oauth.ts'

/** The MCP tools of an agent, as a run gets them. */
export interface McpToolset {
  /**
   * Lists the servers. If a server is down, its tools are missing and the log says so. The first list of a
   * server is trusted.
   */
  toolsFor(servers: McpServer[]): Promise<Tool[]>
  /**
   * Returns one tool, by the name that the model called, for an earlier call; a server that has just failed
   * is listed again. Undefined if the tool is no longer offered.
   * @throws ToolFailure if the server cannot be listed
   */
  toolNamed(servers: McpServer[], name: string): Promise<Tool | undefined>
}

const CALL_TIMEOUT_MS = 60_000

function mayReceiveConfidential(server: McpServer, toolName: string): boolean {
  const named = server.confidentialTools as string[] | null
  return server.mayReceiveConfidential && (named === null || named.includes(toolName))
}

export function createMcpToolset(platform: Platform, mcp: McpTools, oauth: McpOAuth): McpToolset {
  const { secretBox, logger, config } = platform
  const keeper = createListingKeeper(platform)

  /**
   * Leaves out a server whose headers cannot be decrypted, so that it is skipped like one that is down.
   */
  function accessesTo(servers: McpServer[]): McpServerAccess[] {
    return servers.flatMap((server) => {
      try {
        return [accessTo(server, secretBox, oauth)]
      } catch (error) {
        const { name: serverName } = server
        logger.warn({ serverName, reason: messageOf(error) }, 'skipped an MCP server: could not decrypt its headers')
        return []
      }
    })
  }

  async function ask(servers: McpServer[], accesses: McpServerAccess[]): Promise<McpListing> {
    const listing = await mcp.list(accesses)
    for (const { serverName, toolName, reason } of listing.failed) {
      if (toolName === null) logger.warn({ serverName, reason }, 'left out an MCP server: could not list its tools')
      else logger.warn({ serverName, toolName, reason }, 'left out a tool of an MCP server')
    }
    for (const { serverName, toolName } of listing.unconfirmed) {
      logger.warn(
        { serverName, toolName },
        'withheld an MCP tool that is new or has changed; an admin must confirm it (confirmMcpTools)',
      )
    }
    await keeper.keep(servers, listing)
    return listing
  }

  function toolOf(server: McpServer, access: McpServerAccess, tool: McpTool): Tool {
    const { name, description, inputSchema, serverName, toolName } = tool
    const executeApproved = async (input: JsonObject, { callId, signal }: ApprovedCall) => {
      const use = { callId, signal, timeoutMs: CALL_TIMEOUT_MS }
      const outcome = await mcp.call(access, toolName, input, use)
      if (outcome.type === 'result') return outcome
      const { code, message, details, files } = outcome
      const named = code === 'UNAUTHORIZED' ? `MCP server "${serverName}": ${message}` : message
      throw new ToolFailure(code, named, {
        ...(details === undefined ? {} : { details }),
        ...(files === undefined ? {} : { files }),
      })
    }
    const { versionDigest, grantDigest } = versionOfMcpTool(server, tool)
    const policy = policyOfMcpTool(server, toolName)
    const outside = { mayReceiveConfidential: mayReceiveConfidential(server, toolName) }
    const terms = { inputSchema, versionDigest, grantDigest, visible: false, answerMs: null }
    return {
      name,
      description,
      inputSchema,
      isForeign: true,
      versionDigest,
      presence: { type: 'hidden' },
      execution: null,
      outside,
      ...(policy === null ? {} : { approval: askedApproval(policy, terms, config.limits) }),
      executeApproved,
      execute: executeApproved,
    }
  }

  const toolsIn = (servers: McpServer[], accesses: McpServerAccess[], tools: McpTool[]): Tool[] =>
    tools.flatMap((tool) => {
      const access = accesses.find(({ name }) => name === tool.serverName)
      const server = servers.find(({ name }) => name === tool.serverName)
      return access === undefined || server === undefined ? [] : [toolOf(server, access, tool)]
    })

  return {
    async toolsFor(servers) {
      if (servers.length === 0) return []
      const accesses = accessesTo(servers)
      return toolsIn(servers, accesses, (await ask(servers, accesses)).tools)
    },
    async toolNamed(servers, name) {
      const asked = servers.filter((server) => mayBeOf(server.name, name))
      const accesses = accessesTo(asked).map((access) => ({ ...access, again: true as const }))
      const { tools, failed } = await ask(asked, accesses)
      const found = toolsIn(asked, accesses, tools).find((tool) => tool.name === name)
      const down = failed.find(({ toolName }) => toolName === null)
      if (found === undefined && down !== undefined) throw new ToolFailure('UNREACHABLE', down.reason)
      return found
    },
  }
}
