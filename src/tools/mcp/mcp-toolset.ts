import { openHeaders } from '../../agents/outgoing-request.ts'
import type { McpServer } from '../../generated/prisma/client.ts'
import { messageOf } from '../../lib/errors.ts'
import { jsonbText } from '../../lib/json.ts'
import type { Platform } from '../../platform/platform.ts'
import { type Tool, ToolFailure } from '../tool.ts'
import type { McpServerAccess, McpTools } from './mcp-tools.ts'

/** The tools that an agent has from its MCP servers, as a run gets them. */
export interface McpToolset {
  /** Asks the servers; one that is down costs its tools and a line in the log. What is seen first is trusted from then on. */
  toolsFor(servers: McpServer[]): Promise<Tool[]>
}

const CALL_TIMEOUT_MS = 60_000

export function createMcpToolset({ db, secretBox, logger }: Platform, mcp: McpTools): McpToolset {
  /** Nothing for a server whose headers cannot be opened: it is left out as one that is down is. */
  function accessTo(row: McpServer): McpServerAccess[] {
    const { name: serverName, url, restricted, allowedTools } = row
    const fingerprints = row.fingerprints as Record<string, string>
    try {
      const headers = openHeaders('mcp', row, secretBox)
      return [{ name: serverName, url, headers, allowedTools: restricted ? allowedTools : null, fingerprints }]
    } catch (error) {
      logger.warn({ serverName, reason: messageOf(error) }, 'an MCP server was left out')
      return []
    }
  }

  /** Adds what is not there yet: another run may have seen the same tool at the same time. */
  async function trust(servers: McpServer[], firstSeen: Record<string, Record<string, string>>): Promise<void> {
    for (const { agentId, name } of servers) {
      const seen = firstSeen[name]
      if (seen === undefined || Object.keys(seen).length === 0) continue
      await db.prisma.$executeRaw`
        UPDATE "McpServer" SET fingerprints = ${jsonbText(seen)}::jsonb || fingerprints WHERE "agentId" = ${agentId} AND name = ${name}`
    }
  }

  return {
    async toolsFor(servers) {
      if (servers.length === 0) return []
      const accesses = servers.flatMap(accessTo)
      const { tools, changed, failed, firstSeen } = await mcp.list(accesses)
      for (const { serverName, toolName, reason } of failed)
        logger.warn({ serverName, toolName, reason }, 'an MCP server was left out')
      for (const { serverName, toolName } of changed) {
        logger.warn(
          { serverName, toolName },
          'an MCP tool has changed since it was first used: an admin must confirm it',
        )
      }
      await trust(servers, firstSeen)
      return tools.flatMap((tool) => {
        const access = accesses.find(({ name }) => name === tool.serverName)
        if (access === undefined) return []
        return [
          {
            name: tool.name,
            description: tool.description,
            inputSchema: tool.inputSchema,
            presence: { type: 'hidden' },
            execution: null,
            async execute(input, { run }) {
              const outcome = await mcp.call(access, tool.toolName, input, {
                timeoutMs: CALL_TIMEOUT_MS,
                signal: run.signal,
              })
              if (outcome.type === 'failure') throw new ToolFailure(outcome.code, outcome.message)
              return outcome.output
            },
          } satisfies Tool,
        ]
      })
    },
  }
}
