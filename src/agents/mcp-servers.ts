import type { Viewer } from '../access/viewer.ts'
import type { McpServer as Row } from '../generated/prisma/client.ts'
import { BadInputError, ForbiddenError, NotFoundError } from '../lib/errors.ts'
import { wellFormedIds } from '../lib/ids.ts'
import { storableText } from '../lib/json.ts'
import type { Tx } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'
import type { SecretBox } from '../platform/secret-box.ts'
import { checkHeaders, checkUrl, type Headers, type HeadersInput, sealHeaders } from './outgoing-request.ts'
import { checkToolName, indexOfRepeat, MCP_NAME_SEPARATOR } from './tool-names.ts'

/** A Model Context Protocol server of an agent. Its headers are sealed: see `openHeaders`. */
export interface McpServer extends Omit<Row, 'allowedTools' | 'restricted' | 'fingerprints'> {
  /** Null for all that it offers. */
  allowedTools: string[] | null
  /** What was seen of each tool's definition, by its name. */
  fingerprints: Record<string, string>
}

export interface McpServerInput {
  name: string
  url: string
  /** Undefined in an update keeps those of the server of the same name; null removes them. */
  headers?: HeadersInput
  allowedTools?: readonly string[] | null
}

/** A server's settings, checked. */
export interface CheckedMcpServer {
  name: string
  url: string
  /** Undefined: keep. */
  headers: Headers | null | undefined
  allowedTools: string[] | null
}

/** The MCP servers of agents. */
export interface McpServers {
  /** The servers of each agent in the order in which they were given; an agent without any is left out. */
  listMany(agentIds: readonly string[]): Promise<Map<string, McpServer[]>>
  /**
   * Admins only: forgets what was trusted of the server's tools, so that they are trusted as they are at their next use.
   * @throws ForbiddenError, NotFoundError
   */
  confirm(viewer: Viewer, input: { agentId: string; serverName: string }): Promise<void>
}

const MOST_SERVERS = 20
const MOST_ALLOWED_TOOLS = 500
const LONGEST_TOOL_NAME = 200

export function createMcpServers({ db }: Pick<Platform, 'db'>): McpServers {
  return {
    async listMany(agentIds) {
      const rows = await db.prisma.mcpServer.findMany({
        where: { agentId: { in: [...agentIds] } },
        orderBy: [{ agentId: 'asc' }, { position: 'asc' }],
      })
      return Map.groupBy(rows.map(serverOf), ({ agentId }) => agentId)
    },
    async confirm(viewer, { agentId, serverName: name }) {
      if (viewer.scope !== 'ADMIN') throw new ForbiddenError('Only an admin can confirm the tools of MCP servers.')
      const [id] = wellFormedIds([agentId])
      const where = { agentId: id ?? '', name: storableText(name) }
      const { count } = await db.prisma.mcpServer.updateMany({ where, data: { fingerprints: {} } })
      if (count === 0) throw new NotFoundError('There is no such agent, or it has no such MCP server.')
    },
  }
}

function serverOf({ restricted, allowedTools, fingerprints, ...row }: Row): McpServer {
  return {
    ...row,
    allowedTools: restricted ? allowedTools : null,
    fingerprints: fingerprints as Record<string, string>,
  }
}

/** An agent's servers as they may be kept. @throws BadInputError with the field at fault. */
export function checkMcpServers(servers: readonly McpServerInput[]): CheckedMcpServer[] {
  if (servers.length > MOST_SERVERS) throw new BadInputError(`At most ${MOST_SERVERS} MCP servers.`, 'input.mcpServers')
  const checked = servers.map((server, index) => checkServer(server, `input.mcpServers.${index}`))
  const repeat = indexOfRepeat(checked.map(({ name }) => name))
  if (repeat !== -1)
    throw new BadInputError('Another server of the agent has this name.', `input.mcpServers.${repeat}.name`)
  return checked
}

function checkServer({ name, url, headers, allowedTools }: McpServerInput, field: string): CheckedMcpServer {
  checkToolName(name, `${field}.name`)
  if (name.includes(MCP_NAME_SEPARATOR)) {
    throw new BadInputError('Two underscores part a server from its tools: a name has none in a row.', `${field}.name`)
  }
  const allowed = allowedTools == null ? null : [...new Set(allowedTools)]
  const tooLong = allowed?.some((tool) => tool.length < 1 || tool.length > LONGEST_TOOL_NAME || tool.includes('\0'))
  if (tooLong === true || (allowed?.length ?? 0) > MOST_ALLOWED_TOOLS) {
    throw new BadInputError(
      `At most ${MOST_ALLOWED_TOOLS} tools with names of 1 to ${LONGEST_TOOL_NAME} characters.`,
      `${field}.allowedTools`,
    )
  }
  return {
    name,
    url: checkUrl(url, `${field}.url`),
    headers: headers === undefined ? undefined : checkHeaders(headers, `${field}.headers`),
    allowedTools: allowed,
  }
}

/**
 * Puts these servers in the place of those that the agent has, in the caller's transaction. What was seen of a server's tools
 * stays as long as its name and URL do.
 */
export async function replaceMcpServers(
  tx: Tx,
  agentId: string,
  servers: CheckedMcpServer[],
  secretBox: SecretBox,
): Promise<void> {
  const before = await tx.mcpServer.findMany({ where: { agentId } })
  await tx.mcpServer.deleteMany({ where: { agentId } })
  const data = servers.map(({ name, url, headers, allowedTools }, position) => {
    const same = before.find((server) => server.name === name)
    const { headersSealed, headerNames } = sealHeaders(headers, same, { kind: 'mcp', agentId, name }, secretBox)
    return {
      agentId,
      position,
      name,
      url,
      headersSealed,
      headerNames,
      allowedTools: allowedTools ?? [],
      restricted: allowedTools !== null,
      fingerprints: same !== undefined && same.url === url ? (same.fingerprints ?? {}) : {},
    }
  })
  await tx.mcpServer.createMany({ data })
}
