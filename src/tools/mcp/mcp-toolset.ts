import type { ApprovalPolicy } from '../../agents/approval-policy.ts'
import type { ListedMcpTool } from '../../agents/mcp-servers.ts'
import { openHeaders } from '../../agents/outgoing-request.ts'
import type { McpServer } from '../../generated/prisma/client.ts'
import { messageOf } from '../../lib/errors.ts'
import { type JsonObject, jsonbText } from '../../lib/json.ts'
import type { Platform } from '../../platform/platform.ts'
import { digestOf } from '../../runs/approval.ts'
import { askedApproval } from '../asked-approval.ts'
import { type CarriedCall, type Tool, ToolFailure } from '../tool.ts'
import { type McpTool, mayBeOf } from './definitions.ts'
import type { McpListing, McpServerAccess, McpTools } from './mcp-tools.ts'

/** The MCP tools of an agent, as a run gets them. */
export interface McpToolset {
  /**
   * Lists the servers. If a server is down, its tools are missing and the log says so. The first list of a
   * server is trusted.
   */
  toolsFor(servers: McpServer[]): Promise<Tool[]>
  /**
   * Returns one tool, by the name that the model called, for an earlier call; a server that has just failed
   * is listed again. Undefined: the tool is no longer offered.
   * @throws ToolFailure if the server cannot be listed
   */
  toolNamed(servers: McpServer[], name: string): Promise<Tool | undefined>
}

const CALL_TIMEOUT_MS = 60_000

/** Returns the approval policy of a tool; null if its calls need no approval. */
function policyOf(servers: McpServer[], { serverName, toolName }: McpTool): ApprovalPolicy | null {
  const server = servers.find(({ name }) => name === serverName)
  const named = (server?.approvalTools ?? null) as string[] | null
  return named === null || named.includes(toolName) ? ((server?.approval ?? null) as ApprovalPolicy | null) : null
}

function mayReceiveConfidential(servers: McpServer[], { serverName, toolName }: McpTool): boolean {
  const server = servers.find(({ name }) => name === serverName)
  const named = (server?.confidentialTools ?? null) as string[] | null
  return server?.mayReceiveConfidential === true && (named === null || named.includes(toolName))
}

export function createMcpToolset({ db, secretBox, logger, config }: Platform, mcp: McpTools): McpToolset {
  /**
   * Returns an empty array if the headers cannot be decrypted, so that the server is skipped like one that is
   * down.
   */
  function accessTo(row: McpServer): McpServerAccess[] {
    const { name: serverName, url, restricted, allowedTools } = row
    const known = row.fingerprints as Record<string, string>
    const fingerprints = row.listing === null && Object.keys(known).length === 0 ? null : known
    try {
      const headers = openHeaders('mcp', row, secretBox)
      return [{ name: serverName, url, headers, allowedTools: restricted ? allowedTools : null, fingerprints }]
    } catch (error) {
      logger.warn({ serverName, reason: messageOf(error) }, 'skipped an MCP server: could not decrypt its headers')
      return []
    }
  }

  /** Stores a changed list, for an admin to confirm. The first list of a server is trusted. */
  async function keep(servers: McpServer[], listed: McpListing['listed']): Promise<void> {
    for (const { agentId, name, listing } of servers) {
      const { tools, seen } = listed[name] ?? { tools: null, seen: {} }
      const now = tools?.map(listedOf)
      if (now === undefined || isSameListing(now, listing as ListedMcpTool[] | null)) continue
      await db.prisma.$executeRaw`
        UPDATE "McpServer" SET listing = ${jsonbText(now)}::jsonb,
          fingerprints = CASE WHEN listing IS NULL AND fingerprints = '{}' THEN ${jsonbText(seen)}::jsonb ELSE fingerprints END
        WHERE "agentId" = ${agentId} AND name = ${name}`
    }
  }

  async function ask(servers: McpServer[], accesses: McpServerAccess[]): Promise<McpListing> {
    const listing = await mcp.list(accesses)
    for (const { serverName, toolName, reason } of listing.failed)
      logger.warn({ serverName, toolName, reason }, 'skipped an MCP server or one of its tools')
    for (const { serverName, toolName } of listing.unconfirmed) {
      logger.warn(
        { serverName, toolName },
        'withheld an MCP tool that is new or has changed; an admin must confirm it (confirmMcpTools)',
      )
    }
    await keep(servers, listing.listed)
    return listing
  }

  function toolOf(servers: McpServer[], access: McpServerAccess, tool: McpTool): Tool {
    const carryOut = async (input: JsonObject, { callId, signal }: CarriedCall) => {
      const use = { callId, signal, timeoutMs: CALL_TIMEOUT_MS }
      const outcome = await mcp.call(access, tool.toolName, input, use)
      if (outcome.type === 'failure') throw new ToolFailure(outcome.code, outcome.message)
      return outcome.output
    }
    const { name, description, inputSchema, serverName, toolName, fingerprint } = tool
    const versionDigest = digestOf({ serverName, url: access.url, toolName, fingerprint })
    const policy = policyOf(servers, tool)
    const outside = { mayReceiveConfidential: mayReceiveConfidential(servers, tool) }
    const terms = { inputSchema, versionDigest, visible: false, answerMs: null }
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
      carryOut,
      execute: (input, { callId, run }) => carryOut(input, { callId, signal: run.signal }),
    }
  }

  const toolsIn = (servers: McpServer[], accesses: McpServerAccess[], tools: McpTool[]): Tool[] =>
    tools.flatMap((tool) => {
      const access = accesses.find(({ name }) => name === tool.serverName)
      return access === undefined ? [] : [toolOf(servers, access, tool)]
    })

  return {
    async toolsFor(servers) {
      if (servers.length === 0) return []
      const accesses = servers.flatMap(accessTo)
      return toolsIn(servers, accesses, (await ask(servers, accesses)).tools)
    },
    async toolNamed(servers, name) {
      const asked = servers.filter((server) => mayBeOf(server.name, name))
      const accesses = asked.flatMap(accessTo).map((access) => ({ ...access, again: true as const }))
      const { tools, failed } = await ask(asked, accesses)
      const found = toolsIn(asked, accesses, tools).find((tool) => tool.name === name)
      const down = failed.find(({ toolName }) => toolName === null)
      if (found === undefined && down !== undefined) throw new ToolFailure('UNREACHABLE', down.reason)
      return found
    },
  }
}

const listedOf = ({ toolName, description, inputSchema, fingerprint }: McpTool): ListedMcpTool => ({
  name: toolName,
  description: description === '' ? null : description,
  inputSchema,
  fingerprint,
})

function isSameListing(now: ListedMcpTool[], before: ListedMcpTool[] | null): boolean {
  const marks = (tools: ListedMcpTool[]) => tools.map(({ name, fingerprint }) => `${name} ${fingerprint}`).join('\n')
  return before !== null && marks(now) === marks(before)
}
