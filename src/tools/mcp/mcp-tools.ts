import { createHash } from 'node:crypto'
import type { ListToolsResult } from '@ai-sdk/mcp'
import { checkInputSchema } from '../../lib/schema-checks.ts'
import type { Clock } from '../../platform/clock.ts'
import type { GuardedHttp } from '../custom/guarded-http.ts'
import { createMcpConnection, type McpAddress, type McpCallOptions, type McpConnection } from './connection.ts'
import { type McpTool, readDefinitions } from './definitions.ts'
import type { McpOutcome } from './results.ts'

/** An MCP server of an agent, with decrypted headers. */
export interface McpServerAccess extends McpAddress {
  /** The name of the server, unique per agent. */
  name: string
  /** The server's names for the allowed tools; null if all are allowed. */
  allowedTools: string[] | null
  /**
   * The trusted fingerprint of each tool, by the server's name for the tool. Null for a server that has never been
   * listed: its first list is trusted, because an admin added the server.
   */
  fingerprints: Record<string, string> | null
  /** Whether to list the server even if it has just failed. */
  again?: true
  /**
   * Identifies the owner of the token by agent, server and person. Servers with different owners never share a
   * session.
   */
  owner?: string
}

export interface McpListing {
  /** The tools that a model may be offered now. */
  tools: McpTool[]
  /** Tools that are new or whose definition has changed. They are not offered until an admin confirms them. */
  unconfirmed: { serverName: string; toolName: string; fingerprint: string }[]
  /** Servers that could not be listed (`toolName` is null), and single tools that model providers would refuse. */
  failed: { serverName: string; toolName: string | null; reason: string }[]
  /**
   * By server name: the listed tools that the agent may use, whether offered or not, and the fingerprints of all
   * tools.
   */
  listed: Record<string, { tools: McpTool[]; seen: Record<string, string> }>
}

/** The tools of agents' MCP servers. All runs of this process share one client per server. */
export interface McpTools {
  /** Lists all servers concurrently, within 5 s. Never throws. If a server is unavailable, its tools are missing. */
  list(servers: McpServerAccess[]): Promise<McpListing>
  /** Calls a tool by the server's name for it. Never throws. */
  call(
    server: McpAddress,
    toolName: string,
    input: Record<string, unknown>,
    options: McpCallOptions,
  ): Promise<McpOutcome>
  /** Ends all sessions. */
  close(): Promise<void>
}

export interface McpToolsOptions {
  http: GuardedHttp
  clock: Clock
  /** The time limit for connecting and listing together. */
  listTimeoutMs?: number
  /** How long a list is cached. */
  listFreshMs?: number
  /** How long the failure of a server is cached. */
  failureFreshMs?: number
  /** How long an unused connection is kept. */
  idleMs?: number
}

export function createMcpTools(options: McpToolsOptions): McpTools {
  const servers = createServers(options)

  async function listServer({ name, allowedTools, fingerprints, ...server }: McpServerAccess): Promise<McpListing> {
    try {
      const list = await servers.list(server)
      return await compareListing({ name, url: server.url, allowedTools, fingerprints }, list)
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error)
      return { tools: [], unconfirmed: [], failed: [{ serverName: name, toolName: null, reason }], listed: {} }
    }
  }

  return {
    async list(given) {
      const listings = await Promise.all(given.map(listServer))
      return {
        tools: listings.flatMap(({ tools }) => tools),
        unconfirmed: listings.flatMap(({ unconfirmed }) => unconfirmed),
        failed: listings.flatMap(({ failed }) => failed),
        listed: Object.assign({}, ...listings.map(({ listed }) => listed)),
      }
    },
    call: servers.call,
    close: servers.close,
  }
}

/** Compares a server's list with the trusted fingerprints. The schemas of untrusted tools are not compiled. */
export async function compareListing(
  { name: serverName, url, allowedTools, fingerprints }: Omit<McpServerAccess, 'headers' | 'again'>,
  list: ListToolsResult['tools'],
): Promise<McpListing> {
  const { tools: listed, refused, seen } = readDefinitions(serverName, list, allowedTools)
  const trusted = new Map(Object.entries(fingerprints ?? seen))
  const [confirmed = [], unconfirmed = []] = [true, false].map((isTrusted) =>
    listed.filter(({ toolName, fingerprint }) => (trusted.get(toolName) === fingerprint) === isTrusted),
  )
  const requester = { id: url, isPatient: true }
  const faults = await Promise.all(confirmed.map(({ inputSchema }) => checkInputSchema(inputSchema, requester)))
  const unusable = confirmed.flatMap(({ toolName }, index) => {
    const reason = faults[index] ?? null
    return reason === null ? [] : [{ toolName, reason }]
  })
  return {
    tools: confirmed.filter((_, index) => faults[index] === null),
    unconfirmed: unconfirmed.map(({ toolName, fingerprint }) => ({ serverName, toolName, fingerprint })),
    failed: [...refused, ...unusable].map((refusal) => ({ serverName, ...refusal })),
    listed: { [serverName]: { tools: listed, seen } },
  }
}

interface Server {
  connection: McpConnection
  listing: { at: number; tools: Promise<ListToolsResult['tools']>; failed: boolean } | null
  usedAt: number
  /** The number of calls in progress. */
  calls: number
}

/** The servers in use. Agents share the session of a server only if their URL, headers and owner are the same. */
function createServers({ http, clock, ...times }: McpToolsOptions) {
  const { listTimeoutMs = 5_000, listFreshMs = 60_000, failureFreshMs = 30_000, idleMs = 300_000 } = times
  const servers = new Map<string, Server>()
  const ending = new Set<Promise<void>>()

  function serverAt({ url, headers, authProvider, owner }: McpAddress & { owner?: string }): Server {
    dropIdle()
    const key = createHash('sha256')
      .update(JSON.stringify([url, Object.entries(headers).sort(), owner ?? null]))
      .digest('hex')
    const server = servers.get(key) ?? {
      connection: createMcpConnection({ url, headers, ...(authProvider === undefined ? {} : { authProvider }) }, http),
      listing: null,
      usedAt: 0,
      calls: 0,
    }
    servers.set(key, server)
    server.usedAt = clock.now()
    return server
  }

  function dropIdle(): void {
    for (const [key, { connection, usedAt, calls }] of servers) {
      if (calls > 0 || clock.now() - usedAt < idleMs) continue
      servers.delete(key)
      end(connection)
    }
  }

  function end(connection: McpConnection): void {
    const ended: Promise<void> = connection.disconnect().finally(() => ending.delete(ended))
    ending.add(ended)
  }

  return {
    /**
     * Lists the server's tools. While the cached result is fresh, returns it instead, or throws it if it is an
     * error.
     */
    list({ again = false, ...address }: McpAddress & { again?: boolean }): Promise<ListToolsResult['tools']> {
      const server = serverAt(address)
      const { listing: last } = server
      const freshMs = last?.failed !== true ? listFreshMs : again ? 0 : failureFreshMs
      if (last !== null && clock.now() - last.at < freshMs) return last.tools
      const listing = { at: clock.now(), tools: server.connection.list(listTimeoutMs), failed: false }
      server.listing = listing
      listing.tools.catch(() => {
        listing.failed = true
        end(server.connection)
      })
      return listing.tools
    },

    async call(address: McpAddress, toolName: string, input: Record<string, unknown>, options: McpCallOptions) {
      const server = serverAt(address)
      server.calls += 1
      const outcome = await server.connection.call(toolName, input, options)
      server.calls -= 1
      server.usedAt = clock.now()
      return outcome
    },

    async close() {
      for (const { connection } of servers.values()) end(connection)
      servers.clear()
      await Promise.all(ending)
    },
  }
}
