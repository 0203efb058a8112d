import type { Limits } from '../config.ts'
import { Prisma, type McpServer as Row } from '../generated/prisma/client.ts'
import { BadInputError } from '../lib/errors.ts'
import type { JsonObject } from '../lib/json.ts'
import { hasNameCharacters, indexOfRepeat } from '../lib/validate.ts'
import type { Tx } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'
import type { SecretBox } from '../platform/secret-box.ts'
import { deleteUnusedAuthorizations } from '../stores/mcp-authorization-store.ts'
import { replaceMcpServerRows } from '../stores/tool-store.ts'
import { type ApprovalPolicy, type ApprovalPolicyInput, checkApproval } from './approval-policy.ts'
import {
  checkHeaders,
  checkOriginOfKept,
  checkUrl,
  type Headers,
  type HeadersInput,
  sealHeaders,
} from './outgoing-request.ts'
import { checkToolName, MCP_NAME_SEPARATOR } from './tool-names.ts'

/** An MCP server of an agent. Its headers are encrypted (see `openHeaders`). */
export interface McpServer
  extends Omit<
    Row,
    | 'allowedTools'
    | 'restricted'
    | 'fingerprints'
    | 'listing'
    | 'problems'
    | 'approval'
    | 'approvalTools'
    | 'confidentialTools'
    | 'oauth'
    | 'oauthSealed'
  > {
  oauth: McpAuthorization
  /**
   * Whether an authorization for the whole server is stored. With the setting PERSON, it is only used to list the
   * tools.
   */
  authorized: boolean
  /** The tools that the agent may use; null for all tools of the server. */
  allowedTools: string[] | null
  /** Those tools in the server's latest list that the agent may use. Empty until a run has connected to the server. */
  tools: (ListedMcpTool & { confirmed: boolean })[]
  approval: ApprovalPolicy | null
  /** The tools that need approval. If there is a policy, null means all tools. */
  approvalTools: string[] | null
  /** The tools that may receive confidential content. If the server may receive it, null means all tools. */
  confidentialTools: string[] | null
  /** The tools that were unusable when a run last connected to the server, with reasons. */
  problems: McpProblem[]
}

/** How requests to a server are authorized, in addition to its headers. */
export const MCP_AUTHORIZATIONS = ['NONE', 'SERVER', 'PERSON'] as const
export type McpAuthorization = (typeof MCP_AUTHORIZATIONS)[number]

/** Why a server or one of its tools cannot be used. */
export interface McpProblem {
  /** The name of the tool; null if the whole server cannot be used. */
  toolName: string | null
  reason: string
}

/** A tool as it appears in the server's latest list. */
export interface ListedMcpTool {
  /** The tool's name on the server. */
  name: string
  description: string | null
  inputSchema: JsonObject
  /** A fingerprint that changes if any part of the tool's definition changes. */
  fingerprint: string
}

export interface McpServerInput {
  name: string
  url: string
  /** In an update, undefined lets the server with the same name keep its headers, and null removes them. */
  headers?: HeadersInput
  allowedTools?: readonly string[] | null
  approval?: ApprovalPolicyInput | null
  approvalTools?: readonly string[] | null
  mayReceiveConfidential?: boolean | null
  confidentialTools?: readonly string[] | null
  alwaysAskTools?: readonly string[] | null
  oauth?: McpAuthorization | null
}

/** The validated settings of a server. */
export interface CheckedMcpServer {
  name: string
  url: string
  /** The headers. Undefined keeps the stored ones. */
  headers: Headers | null | undefined
  allowedTools: string[] | null
  approval: ApprovalPolicy | null
  approvalTools: string[] | null
  mayReceiveConfidential: boolean
  confidentialTools: string[] | null
  /** The tools whose calls standing grants cannot cover. */
  alwaysAskTools: string[]
  /** How requests are authorized. Null keeps the setting if the URL is unchanged. */
  oauth: McpAuthorization | null
}

/** The MCP servers of agents. */
export interface McpServers {
  /** Returns the servers of each agent in the order of the input. The map has no entry for an agent without servers. */
  listMany(agentIds: readonly string[]): Promise<Map<string, McpServer[]>>
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
  }
}

function serverOf({
  restricted,
  allowedTools,
  fingerprints,
  listing,
  problems,
  approval,
  approvalTools,
  confidentialTools,
  oauth,
  oauthSealed,
  ...row
}: Row): McpServer {
  const trusted = new Map(Object.entries(fingerprints as Record<string, string>))
  const listed = ((listing ?? []) as unknown as ListedMcpTool[]).filter(
    ({ name }) => !restricted || allowedTools.includes(name),
  )
  return {
    ...row,
    oauth: oauth as McpAuthorization,
    authorized: oauthSealed !== null,
    allowedTools: restricted ? allowedTools : null,
    tools: listed.map((tool) => ({ ...tool, confirmed: trusted.get(tool.name) === tool.fingerprint })),
    approval: approval as ApprovalPolicy | null,
    approvalTools: approvalTools as string[] | null,
    confidentialTools: confidentialTools as string[] | null,
    problems: problems as unknown as McpProblem[],
  }
}

/** Validates an agent's servers. @throws BadInputError with the invalid field */
export function checkMcpServers(servers: readonly McpServerInput[], limits: Limits): CheckedMcpServer[] {
  if (servers.length > MOST_SERVERS)
    throw new BadInputError(`An agent can have at most ${MOST_SERVERS} MCP servers.`, 'input.mcpServers')
  const checked = servers.map((server, index) => checkServer(server, `input.mcpServers.${index}`, limits))
  const repeat = indexOfRepeat(checked.map(({ name }) => name))
  if (repeat !== -1)
    throw new BadInputError(
      'Another MCP server of the agent has this name: choose another name.',
      `input.mcpServers.${repeat}.name`,
    )
  return checked
}

/** Validates one server. @throws BadInputError with the invalid field */
export function checkServer(input: McpServerInput, field: string, limits: Limits): CheckedMcpServer {
  const { name, url, headers } = input
  checkToolName(name, `${field}.name`)
  if (name.includes(MCP_NAME_SEPARATOR)) {
    throw new BadInputError(
      'An MCP server name must not contain "__", which separates server and tool names.',
      `${field}.name`,
    )
  }
  const approval = checkApproval(input.approval, `${field}.approval`, limits)
  const approvalTools = checkToolList(input.approvalTools, `${field}.approvalTools`)
  if (approvalTools !== null && approval === null)
    throw new BadInputError(
      'approvalTools requires approval: set the policy for these tools.',
      `${field}.approvalTools`,
    )
  return {
    name,
    url: checkUrl(url, `${field}.url`),
    headers: headers === undefined ? undefined : checkHeaders(headers, `${field}.headers`),
    allowedTools: checkToolList(input.allowedTools, `${field}.allowedTools`),
    approval,
    approvalTools,
    alwaysAskTools: checkToolList(input.alwaysAskTools, `${field}.alwaysAskTools`) ?? [],
    ...confidentialOf(input, `${field}.confidentialTools`),
    oauth: checkOAuth(input, field),
  }
}

/** Validates the setting `oauth`. Returns null if it is not given. */
function checkOAuth({ oauth, headers }: McpServerInput, field: string): McpAuthorization | null {
  const names = typeof headers === 'object' && headers !== null ? Object.keys(headers) : []
  if (oauth != null && oauth !== 'NONE' && names.some((name) => name.toLowerCase() === 'authorization'))
    throw new BadInputError(
      `With oauth: ${oauth}, the server sets the authorization header itself: remove the header.`,
      `${field}.headers`,
    )
  return oauth ?? null
}

function confidentialOf({ mayReceiveConfidential, confidentialTools: given }: McpServerInput, field: string) {
  const confidentialTools = checkToolList(given, field)
  if (confidentialTools !== null && mayReceiveConfidential !== true)
    throw new BadInputError('confidentialTools requires mayReceiveConfidential: true.', field)
  return { mayReceiveConfidential: mayReceiveConfidential === true, confidentialTools }
}

/** Validates a list of the server's tool names. Returns null if there is no list. */
function checkToolList(given: readonly string[] | null | undefined, field: string): string[] | null {
  if (given == null) return null
  const names = [...new Set(given)]
  const isTooLong = names.some((name) => name.length < 1 || name.length > LONGEST_TOOL_NAME || !hasNameCharacters(name))
  if (isTooLong || names.length > MOST_ALLOWED_TOOLS) {
    throw new BadInputError(
      `The list can contain at most ${MOST_ALLOWED_TOOLS} tool names of 1 to ${LONGEST_TOOL_NAME} characters, without control characters.`,
      field,
    )
  }
  return names
}

/**
 * Replaces the servers of an agent, in the caller's transaction. A server with the same name and URL keeps its
 * stored list of tools.
 */
export async function replaceMcpServers(
  tx: Tx,
  agentId: string,
  servers: CheckedMcpServer[],
  secretBox: SecretBox,
): Promise<void> {
  const before = await tx.mcpServer.findMany({ where: { agentId } })
  for (const [index, server] of servers.entries()) {
    const same = before.find(({ name }) => name === server.name)
    checkOriginOfKept(server, same, `input.mcpServers.${index}`)
  }
  const data = servers.map(({ name, url, headers, allowedTools, approval, approvalTools, ...server }, position) => {
    const same = before.find((server) => server.name === name)
    const oauth = server.oauth ?? (same?.url === url ? same.oauth : 'NONE')
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
      approval: approval ?? Prisma.DbNull,
      approvalTools: approvalTools ?? Prisma.DbNull,
      mayReceiveConfidential: server.mayReceiveConfidential,
      confidentialTools: server.confidentialTools ?? Prisma.DbNull,
      alwaysAskTools: server.alwaysAskTools,
      oauth,
      // The token is valid only for one address.
      oauthSealed: oauth !== 'NONE' && same?.url === url && same.oauth === oauth ? same.oauthSealed : null,
      fingerprints: same?.url === url ? (same.fingerprints ?? {}) : {},
      listing: (same?.url === url ? same.listing : null) ?? Prisma.DbNull,
    }
  })
  await replaceMcpServerRows(tx, agentId, data)
  await deleteUnusedAuthorizations(tx, agentId)
}
