import type { ListedMcpTool } from '../../agents/mcp-servers.ts'
import { mcpToolName } from '../../agents/tool-names.ts'
import { policyOfMcpTool, versionOfMcpTool } from '../../agents/tool-versions.ts'
import type { McpServer } from '../../generated/prisma/client.ts'
import { messageOf } from '../../lib/errors.ts'
import type { JsonObject } from '../../lib/json.ts'
import type { Platform } from '../../platform/platform.ts'
import { digestOf } from '../../rules/approvals.ts'
import { askedApproval } from '../asked-approval.ts'
import { type ApprovedCall, type Tool, ToolFailure } from '../tool.ts'
import { type McpTool, mayBeOf } from './definitions.ts'
import { accessTo, createListingKeeper } from './listing-keeper.ts'
import type { McpListing, McpServerAccess, McpTools } from './mcp-tools.ts'
import type { McpOAuth } from './oauth.ts'
import { createPersonCalls, type PersonOfCall } from './person-calls.ts'

/** Provides the MCP tools of an agent to a run. */
export interface McpToolset {
  /**
   * Lists the servers. Leaves out the tools of unavailable servers and logs a warning. The first list of a server
   * is trusted.
   */
  toolsFor(servers: McpServer[], run: { id: string }): Promise<Tool[]>
  /**
   * Returns the tool of an earlier call. Lists the server again even if listing has just failed. Returns undefined
   * if the tool is no longer offered.
   * @param call `personId`: the person who has connected for this call; null for the person behind its run
   * @throws ToolFailure if the server cannot be listed
   */
  toolNamed(
    servers: McpServer[],
    call: { toolName: string; runId: string; personId: string | null },
  ): Promise<Tool | undefined>
}

const CALL_TIMEOUT_MS = 60_000

function mayReceiveConfidential(server: McpServer, toolName: string): boolean {
  const named = server.confidentialTools as string[] | null
  return server.mayReceiveConfidential && (named === null || named.includes(toolName))
}

export function createMcpToolset(platform: Platform, mcp: McpTools, oauth: McpOAuth): McpToolset {
  const { secretBox, logger, config } = platform
  const keeper = createListingKeeper(platform)

  const personCalls = createPersonCalls(platform, { mcp, oauth })

  /**
   * Decides which token is used to list a server. This is the server's own token or, if there is none, the
   * person's.
   */
  async function reach(server: McpServer, person: PersonOfCall): Promise<Reached> {
    if (server.oauth !== 'PERSON') return { server, humanId: null, isUnknown: false }
    if ((await oauth.accessTokenOf(server)) !== null) return { server, humanId: null, isUnknown: false }
    const found = (await personCalls.isConnected(server, person)) ? await person() : null
    const humanId = found?.type === 'person' ? found.humanId : null
    return { server, humanId, isUnknown: humanId === null }
  }

  /** Treats a server whose headers cannot be decrypted as unavailable. */
  function accessesTo(reached: Reached[]): McpServerAccess[] {
    return reached.flatMap(({ server, humanId }) => {
      try {
        return [accessTo(server, { secretBox, oauth, ...(humanId === null ? {} : { humanId }) })]
      } catch (error) {
        const { name: serverName } = server
        logger.warn({ serverName, reason: messageOf(error) }, 'skipped an MCP server: could not decrypt its headers')
        return []
      }
    })
  }

  async function ask(reached: Reached[], accesses: McpServerAccess[]): Promise<McpListing> {
    const listing = await mcp.list(accesses)
    const unknown = new Set(reached.flatMap(({ server, isUnknown }) => (isUnknown ? [server.name] : [])))
    for (const { serverName, toolName, reason } of listing.failed) {
      // This failure causes no warning. It is expected, because the server requires a token and there is none.
      if (toolName === null && unknown.has(serverName)) continue
      if (toolName === null) logger.warn({ serverName, reason }, 'skipped an MCP server: could not list its tools')
      else logger.warn({ serverName, toolName, reason }, 'skipped a tool of an MCP server')
    }
    for (const { serverName, toolName } of listing.unconfirmed) {
      logger.warn(
        { serverName, toolName },
        'withheld an MCP tool that is new or has changed; an admin must confirm it (confirmMcpTools)',
      )
    }
    // A list that was read with a person's token may differ from other people's lists, so it is stored only if the
    // server has no list yet.
    const kept = reached.filter(({ server, humanId, isUnknown }) => server.listing === null || !(humanId || isUnknown))
    await keeper.keep(
      kept.map(({ server }) => server),
      listing,
    )
    return listing
  }

  function toolOf(server: McpServer, access: McpServerAccess, tool: McpTool, person: PersonOfCall): Tool {
    const { name, description, inputSchema, serverName, toolName } = tool
    const executeApproved = async (input: JsonObject, { callId, signal }: ApprovedCall) => {
      const use = { callId, signal, timeoutMs: CALL_TIMEOUT_MS }
      const outcome =
        server.oauth === 'PERSON'
          ? await personCalls.call(server, { toolName, input, ...use }, person)
          : await mcp.call(access, toolName, input, use)
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
    const approval = policy === null ? null : askedApproval(policy, terms, config.limits)
    return {
      name,
      description,
      inputSchema,
      isForeign: true,
      versionDigest,
      presence: { type: 'hidden' },
      execution: null,
      outside,
      ...(approval === null ? {} : { approval }),
      ...(server.oauth === 'PERSON'
        ? { connection: () => personCalls.connection(server, { inputSchema, versionDigest, approval }, person) }
        : {}),
      executeApproved,
      execute: executeApproved,
    }
  }

  /**
   * Returns a tool that asks the person to connect to a server that was never listed. The server's tools become
   * available after that.
   */
  function connectTool(server: McpServer, person: PersonOfCall): Tool {
    const { name: serverName, url } = server
    const versionDigest = digestOf({ serverName, url, connects: true })
    const executeApproved = async () => ({
      output: { connected: true, note: `The tools of "${serverName}" are available from your next step.` },
    })
    return {
      name: mcpToolName(serverName, CONNECT),
      description: `Connects the person for whom you work to the server "${serverName}", which has further tools. The person is asked to authorize the connection.`,
      inputSchema: NO_INPUT,
      versionDigest,
      presence: { type: 'hidden' },
      execution: null,
      connection: () =>
        personCalls.connection(server, { inputSchema: NO_INPUT, versionDigest, approval: null }, person),
      executeApproved,
      execute: executeApproved,
    }
  }

  /**
   * Returns the stored tools of a PERSON server that could not be listed. The admin's token, which is used to list
   * the server, may have expired while the tokens of people are still valid.
   */
  function storedTools({ server, isUnknown }: Reached, access: McpServerAccess, person: PersonOfCall): Tool[] {
    if (server.listing === null) return isUnknown ? [connectTool(server, person)] : []
    const { name: serverName, restricted, allowedTools, fingerprints } = server
    const trusted = fingerprints as Record<string, string>
    return (server.listing as unknown as ListedMcpTool[])
      .filter(({ name, fingerprint }) => trusted[name] === fingerprint && (!restricted || allowedTools.includes(name)))
      .map(({ name: toolName, description, ...tool }) =>
        toolOf(
          server,
          access,
          { ...tool, name: mcpToolName(serverName, toolName), serverName, toolName, description: description ?? '' },
          person,
        ),
      )
  }

  async function offered(
    servers: McpServer[],
    person: PersonOfCall,
    { again }: { again: boolean },
  ): Promise<{ tools: Tool[]; failed: McpListing['failed'] }> {
    const reached = await Promise.all(servers.map((server) => reach(server, person)))
    const accesses = accessesTo(reached).map((access) => (again ? { ...access, again: true as const } : access))
    const { tools, failed } = await ask(reached, accesses)
    const down = new Set(failed.flatMap(({ serverName, toolName }) => (toolName === null ? [serverName] : [])))
    const offered = reached.flatMap((one) => {
      const { server } = one
      const access = accesses.find(({ name }) => name === server.name)
      if (access === undefined) return []
      if (server.oauth === 'PERSON' && down.has(server.name)) return storedTools(one, access, person)
      const own = tools.filter(({ serverName }) => serverName === server.name)
      return own.map((tool) => toolOf(server, access, tool, person))
    })
    return { tools: offered, failed }
  }

  return {
    async toolsFor(servers, run) {
      if (servers.length === 0) return []
      return (await offered(servers, personCalls.personOf(run.id), { again: false })).tools
    },
    async toolNamed(servers, { toolName: name, runId, personId }) {
      const asked = servers.filter((server) => mayBeOf(server.name, name))
      const person: PersonOfCall =
        personId === null ? personCalls.personOf(runId) : async () => ({ type: 'person', humanId: personId })
      const { tools, failed } = await offered(asked, person, { again: true })
      const connects = asked.find((server) => server.oauth === 'PERSON' && mcpToolName(server.name, CONNECT) === name)
      const found =
        tools.find((tool) => tool.name === name) ?? (connects === undefined ? undefined : connectTool(connects, person))
      const down = failed.find(({ toolName }) => toolName === null)
      if (found === undefined && down !== undefined) throw new ToolFailure('UNREACHABLE', down.reason)
      return found
    },
  }
}

/** A server, and the token that is used to list it. */
interface Reached {
  server: McpServer
  /** The person whose token is used; null if the token is the server's own, or if there is no token. */
  humanId: string | null
  /** Whether the server requires a separate token for each person, and there is no token. */
  isUnknown: boolean
}

const CONNECT = 'connect'
const NO_INPUT: JsonObject = { type: 'object', properties: {}, additionalProperties: false }
