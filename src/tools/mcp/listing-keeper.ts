import { createGrantPublisher } from '../../agents/grant-publisher.ts'
import type { ListedMcpTool } from '../../agents/mcp-servers.ts'
import { openHeaders } from '../../agents/outgoing-request.ts'
import { endGrantsOfChangedTools } from '../../agents/tool-versions.ts'
import type { McpServer } from '../../generated/prisma/client.ts'
import { canonicalText, toJson } from '../../lib/json.ts'
import type { Platform } from '../../platform/platform.ts'
import type { SecretBox } from '../../platform/secret-box.ts'
import { saveListing, saveProblems } from '../../stores/tool-store.ts'
import type { McpTool } from './definitions.ts'
import type { McpListing, McpServerAccess } from './mcp-tools.ts'
import type { McpOAuth } from './oauth.ts'

/** Stores the lists of tools that the MCP servers of agents have returned. */
export interface ListingKeeper {
  /**
   * Stores lists that have changed, and the reasons why servers or tools cannot be used. The first list of a server
   * is trusted; an admin must confirm later changes.
   */
  keep(servers: McpServer[], listing: McpListing): Promise<void>
}

export function createListingKeeper(platform: Platform): ListingKeeper {
  const { db } = platform
  const grantPublisher = createGrantPublisher(platform)

  async function keepLists(servers: McpServer[], listed: McpListing['listed']): Promise<void> {
    for (const { agentId, name, listing } of servers) {
      const { tools, seen } = listed[name] ?? { tools: null, seen: {} }
      const now = tools?.map(listedOf)
      if (now === undefined || isSameListing(now, listing as ListedMcpTool[] | null)) continue
      const ended = await db.transaction(async (tx) => {
        await saveListing(tx, { agentId, name }, { listing: now, seen })
        return endGrantsOfChangedTools(tx, agentId)
      })
      for (const grant of ended) await grantPublisher.changed(grant)
    }
  }

  async function keepProblems(servers: McpServer[], failed: McpListing['failed']): Promise<void> {
    for (const { agentId, name, problems } of servers) {
      const now = failed.flatMap(({ serverName, ...problem }) => (serverName === name ? [problem] : []))
      if (canonicalText(toJson(now)) === canonicalText(toJson(problems))) continue
      await saveProblems(db.prisma, { agentId, name }, now)
    }
  }

  return {
    async keep(servers, { listed, failed }) {
      await keepLists(servers, listed)
      await keepProblems(servers, failed)
    },
  }
}

/**
 * Returns everything needed to use a stored server, with the server's own token or that of a person.
 * @throws SealBrokenError
 */
export function accessTo(
  row: McpServer,
  { secretBox, oauth, humanId }: { secretBox: SecretBox; oauth: McpOAuth; humanId?: string },
): McpServerAccess {
  const { name, url, restricted, allowedTools } = row
  const known = row.fingerprints as Record<string, string>
  const fingerprints = row.listing === null && Object.keys(known).length === 0 ? null : known
  const headers = openHeaders('mcp', row, secretBox)
  const access = { name, url, headers, allowedTools: restricted ? allowedTools : null, fingerprints }
  if (row.oauth === 'NONE') return access
  const { agentId } = row
  const key = { agentId, name, url, ...(humanId === undefined ? {} : { humanId }) }
  // Sessions are never shared between people.
  return { ...access, authProvider: oauth.providerFor(key), owner: [agentId, name, humanId ?? ''].join(':') }
}

export const listedOf = ({ toolName, description, inputSchema, fingerprint }: McpTool): ListedMcpTool => ({
  name: toolName,
  description: description === '' ? null : description,
  inputSchema,
  fingerprint,
})

function isSameListing(now: ListedMcpTool[], before: ListedMcpTool[] | null): boolean {
  const marks = (tools: ListedMcpTool[]) => tools.map(({ name, fingerprint }) => `${name} ${fingerprint}`).join('\n')
  return before !== null && marks(now) === marks(before)
}
