import type { Viewer } from '../../access/viewer.ts'
import { NO_SUCH_AGENT } from '../../agents/existing-agent.ts'
import {
  type CheckedMcpServer,
  checkServer,
  type ListedMcpTool,
  type McpServerInput,
} from '../../agents/mcp-servers.ts'
import { checkOriginOfKept, openHeaders } from '../../agents/outgoing-request.ts'
import type { McpServer } from '../../generated/prisma/client.ts'
import { BadInputError, messageOf, NotFoundError } from '../../lib/errors.ts'
import { wellFormedIds } from '../../lib/ids.ts'
import type { Platform } from '../../platform/platform.ts'
import { requireAdmin } from '../../rules/permissions.ts'
import type { AuthorizationKey } from '../../stores/mcp-authorization-store.ts'
import type { GuardedHttp } from '../custom/guarded-http.ts'
import { withoutValues } from '../custom/header-removal.ts'
import { createMcpConnection, type McpConnection } from './connection.ts'
import { accessTo, createListingKeeper, listedOf } from './listing-keeper.ts'
import { compareListing } from './mcp-tools.ts'
import type { McpOAuth } from './oauth.ts'

export interface ConnectMcpServerInput {
  server: McpServerInput
  /** If the input contains no headers, the headers that this agent stores for the server are used. */
  agentId?: string | null
  /** The URL to which a browser returns from an authorization. */
  redirectUrl: string
}

export interface ConnectedMcpServer {
  /** The tools; null if authorization is needed first, or if the server could not be used. */
  tools: (ListedMcpTool & { confirmed: boolean })[] | null
  /** The URL at which the admin authorizes in a browser. */
  authorizationUrl: string | null
  /** Why the MCP server could not be used. Null if it could be used. */
  error: string | null
}

/** Tests the connection to an MCP server, before or after the server is given to an agent. */
export interface ServerTrial {
  /**
   * Admins only: lists all tools of a server, including those that the agent may not use. If the agent already has
   * the server, stores the list, as runs do.
   * @throws ForbiddenError, NotFoundError, or BadInputError with the field at fault
   */
  connectMcpServer(viewer: Viewer, input: ConnectMcpServerInput): Promise<ConnectedMcpServer>
}

const LIST_TIMEOUT_MS = 10_000

export function createServerTrial(platform: Platform, parts: { http: GuardedHttp; oauth: McpOAuth }): ServerTrial {
  const { http, oauth } = parts
  const { db, secretBox, config } = platform
  const keeper = createListingKeeper(platform)

  async function storedServer(agentId: string, name: string): Promise<McpServer | null> {
    const [id = ''] = wellFormedIds([agentId])
    const agent = await db.prisma.agent.findUnique({ where: { id }, select: { id: true } })
    if (agent === null) throw new NotFoundError(NO_SUCH_AGENT)
    return db.prisma.mcpServer.findUnique({ where: { agentId_name: { agentId: id, name } } })
  }

  /**
   * Lists the server's tools, and marks those that an admin has to confirm. Stores the list if the server is
   * already stored.
   */
  async function listed(
    connection: McpConnection,
    { name, url }: { name: string; url: string },
    stored: McpServer | null,
  ): Promise<ConnectedMcpServer['tools']> {
    const list = await connection.list(LIST_TIMEOUT_MS)
    const access = stored === null ? null : accessTo(stored, { secretBox, oauth })
    if (stored !== null && access !== null) await keeper.keep([stored], await compareListing(access, list))
    const fingerprints = access?.fingerprints ?? null
    const compared = await compareListing({ name, url, allowedTools: null, fingerprints }, list)
    const changed = new Set(compared.unconfirmed.map(({ toolName }) => toolName))
    const usable = new Set([...compared.tools.map(({ toolName }) => toolName), ...changed])
    const shown = (compared.listed[name]?.tools ?? []).filter(({ toolName }) => usable.has(toolName))
    return shown.map((tool) => ({ ...listedOf(tool), confirmed: !changed.has(tool.toolName) }))
  }

  /** @throws SealBrokenError, or BadInputError if the stored headers are for another origin */
  function headersFor({ url, headers }: Pick<CheckedMcpServer, 'url' | 'headers'>, stored: McpServer | null) {
    checkOriginOfKept({ url, headers }, stored ?? undefined, 'input.server')
    if (headers !== undefined) return headers ?? {}
    return stored === null ? {} : openHeaders('mcp', stored, secretBox)
  }

  return {
    async connectMcpServer(viewer, { server: input, agentId, redirectUrl }) {
      requireAdmin(viewer, 'connect to MCP servers')
      const server = checkServer(input, 'input.server', config.limits)
      const { name, url } = server
      const stored = agentId == null ? null : await storedServer(agentId, name)
      const headers = headersFor(server, stored)
      // An absent field means no change, as it does when a server is saved.
      const wanted = server.oauth ?? (stored?.url === url ? stored.oauth : 'NONE')
      const begun =
        wanted === 'NONE'
          ? null
          : oauth.beginning(keyOf(stored, { url, wanted }), { actorId: actorOf(viewer), redirectUrl })
      const address = { url, headers, ...(begun === null ? {} : { authProvider: begun.provider }) }
      const connection = createMcpConnection(address, http)
      // With other headers or another URL, the server may return another list, so the list is not stored.
      const isStored = stored?.url === url && server.headers === undefined && stored.oauth === wanted
      try {
        const tools = await listed(connection, { name, url }, isStored ? stored : null)
        return { tools, authorizationUrl: null, error: null }
      } catch (error) {
        const authorizationUrl = begun?.authorizationUrl() ?? null
        const words = withoutValues(headers)(messageOf(error))
        return { tools: null, authorizationUrl, error: authorizationUrl === null ? words : null }
      } finally {
        await connection.disconnect()
      }
    },
  }
}

const actorOf = (viewer: Viewer): string | null => (viewer.scope === 'HUMAN' ? viewer.id : null)

/**
 * Returns the key of the server's own token.
 * @throws BadInputError if the server is not saved yet, so that there is no place to store a token
 */
function keyOf(stored: McpServer | null, { url, wanted }: { url: string; wanted: string }): AuthorizationKey {
  if (stored !== null && stored.url === url && stored.oauth === wanted)
    return { agentId: stored.agentId, name: stored.name, url }
  throw new BadInputError(
    `Save the server with oauth: ${wanted} and this URL first: its token is stored with the server of the agent.`,
    'input.agentId',
  )
}
