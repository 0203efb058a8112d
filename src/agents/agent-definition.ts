import { createTwoFilesPatch } from 'diff'
import { stringify } from 'yaml'
import type { Agent, AgentTool, McpServer } from '../generated/prisma/client.ts'
import type { BudgetLimits } from '../lib/budget.ts'
import { parseForeignModel } from '../lib/foreign-model.ts'
import type { Json, JsonObject } from '../lib/json.ts'
import type { Tx } from '../platform/db.ts'
import type { HttpMethod } from '../rules/http-request.ts'
import type { UpdateAgentInput } from './agent-input.ts'
import { maxToolCallsOf } from './agent-settings.ts'
import type { ApprovalPolicy } from './approval-policy.ts'
import type { McpAuthorization } from './mcp-servers.ts'
import { remoteAgentOf } from './remote-agent.ts'

/**
 * The settings and tools of an agent, in the form that versions store. It excludes secrets. It also excludes `paused`
 * and `notifyUrl`, because changes to them take effect immediately.
 */
export interface AgentDefinition
  extends Pick<
    Agent,
    | 'description'
    | 'instructions'
    | 'model'
    | 'fallbackModels'
    | 'modelSettings'
    | 'mind'
    | 'toolset'
    | 'maxSteps'
    | 'tokenBudget'
    | 'maxConcurrentRuns'
    | 'phases'
    | 'cycle'
    | 'budget'
    | 'addableBy'
    | 'plainText'
  > {
  name: string
  maxToolCalls: number
  tools: DefinedTool[]
  mcpServers: DefinedServer[]
  /** Set only for an agent on another server. */
  remote?: DefinedRemote
}

interface DefinedRemote {
  headerNames: string[]
  approval: ApprovalPolicy | null
  mayReceiveConfidential: boolean
  /** The fingerprint of the trusted card; null until the first card is read. */
  trustedCard: string | null
}

interface DefinedTool
  extends Pick<
    AgentTool,
    | 'name'
    | 'description'
    | 'inputSchema'
    | 'execution'
    | 'visible'
    | 'url'
    | 'method'
    | 'headerNames'
    | 'approval'
    | 'resultSchema'
    | 'mayReceiveConfidential'
    | 'alwaysAsk'
  > {
  /** The timeout; null for the default. */
  timeoutMs: number | null
}

interface DefinedServer
  extends Pick<
    McpServer,
    | 'name'
    | 'url'
    | 'headerNames'
    | 'approval'
    | 'approvalTools'
    | 'mayReceiveConfidential'
    | 'confidentialTools'
    | 'alwaysAskTools'
    | 'fingerprints'
  > {
  /** The tools that the agent may use; null for all tools of the server. */
  allowedTools: string[] | null
  oauth: string
}

/** Reads the current definition of an agent. */
export async function readDefinition(tx: Tx, agentId: string): Promise<AgentDefinition> {
  const { entity, ...agent } = await tx.agent.findUniqueOrThrow({
    where: { id: agentId },
    include: { entity: { select: { name: true } } },
  })
  const order = { where: { agentId }, orderBy: { position: 'asc' } } as const
  const tools = await tx.agentTool.findMany(order)
  const servers = await tx.mcpServer.findMany(order)
  return {
    name: entity.name,
    description: agent.description,
    instructions: agent.instructions,
    model: agent.model,
    fallbackModels: agent.fallbackModels,
    modelSettings: agent.modelSettings,
    mind: agent.mind,
    toolset: agent.toolset,
    maxSteps: agent.maxSteps,
    maxToolCalls: maxToolCallsOf(agent),
    tokenBudget: agent.tokenBudget,
    budget: agent.budget,
    maxConcurrentRuns: agent.maxConcurrentRuns,
    phases: agent.phases,
    cycle: agent.cycle,
    addableBy: agent.addableBy,
    plainText: agent.plainText,
    tools: tools.map(
      ({ agentId: _agent, position: _position, headersSealed: _secret, timeoutGiven, timeoutMs, ...tool }) => ({
        ...tool,
        timeoutMs: timeoutGiven ? timeoutMs : null,
      }),
    ),
    mcpServers: servers.map(({ name, url, headerNames, allowedTools, restricted, ...server }) => ({
      name,
      url,
      headerNames,
      allowedTools: restricted ? allowedTools : null,
      approval: server.approval,
      approvalTools: server.approvalTools,
      mayReceiveConfidential: server.mayReceiveConfidential,
      confidentialTools: server.confidentialTools,
      alwaysAskTools: server.alwaysAskTools,
      oauth: server.oauth,
      fingerprints: server.fingerprints,
    })),
    ...definedRemote(agent),
  }
}

/**
 * Agents on this server do not have this field, so the versions that they had before its introduction stay the same.
 */
function definedRemote(agent: Agent): Pick<AgentDefinition, 'remote'> {
  const remote = remoteAgentOf(agent)
  if (remote === null) return {}
  const { headerNames, approval, mayReceiveConfidential, card } = remote
  return { remote: { headerNames, approval, mayReceiveConfidential, trustedCard: card?.trusted ?? null } }
}

/** Returns the input that restores an agent to a definition. Tools and MCP servers keep their current headers. */
export function inputOf(agentId: string, definition: AgentDefinition): UpdateAgentInput {
  const { mind: _mind, toolset: _toolset, tools, mcpServers, phases, cycle, budget, remote, ...plain } = definition
  return {
    ...plain,
    id: agentId,
    phases: phases as unknown as NonNullable<UpdateAgentInput['phases']>,
    ...(cycle === null ? {} : { cycle: cycle as JsonObject }),
    budget: budget === null ? null : { ...NO_LIMITS, ...(budget as BudgetLimits) },
    tools: tools.map(({ headerNames: _names, ...tool }) => ({
      ...tool,
      method: tool.method as HttpMethod | null,
      approval: tool.approval as ApprovalPolicy | null,
    })),
    mcpServers: mcpServers.map(({ headerNames: _names, fingerprints: _fingerprints, ...server }) => ({
      ...server,
      approval: server.approval as ApprovalPolicy | null,
      approvalTools: server.approvalTools as string[] | null,
      confidentialTools: server.confidentialTools as string[] | null,
      oauth: server.oauth as McpAuthorization,
    })),
    ...(remote === undefined
      ? {}
      : { remote: { approval: remote.approval, mayReceiveConfidential: remote.mayReceiveConfidential } }),
  }
}

const NO_LIMITS = { tokensPerDay: null, tokensPerRoot: null, usdPerDay: null, usdPerRoot: null }

/**
 * Returns a tool, MCP server or remote agent whose headers the definition needs but the agent no longer has; null if
 * there is none. Such a definition cannot be restored, because versions contain no headers.
 */
export function missingHeadersOf(definition: AgentDefinition, now: AgentDefinition): string | null {
  for (const list of ['tools', 'mcpServers'] as const) {
    for (const { name, url, headerNames } of definition[list]) {
      if (headerNames.length === 0) continue
      const same = now[list].find((one) => one.name === name)
      const isKept = same !== undefined && originOf(same.url) === originOf(url)
      if (!isKept || !headerNames.every((header) => same.headerNames.includes(header))) return name
    }
  }
  const names = definition.remote?.headerNames ?? []
  const kept = originOf(cardUrlOf(definition)) === originOf(cardUrlOf(now)) ? (now.remote?.headerNames ?? []) : []
  return names.every((header) => kept.includes(header)) ? null : definition.model
}

function cardUrlOf({ model }: Pick<AgentDefinition, 'model'>): string | null {
  const foreign = parseForeignModel(model)
  return foreign?.type === 'a2a' ? foreign.cardUrl : null
}

const originOf = (url: string | null) => (url === null ? null : new URL(url).origin)

/** Returns the differences between two definitions as a unified diff of their YAML; '' if there are none. */
export function diffOf(before: Json, after: Json): string {
  const [old, young] = [before, after].map((definition) => stringify(definition, { lineWidth: 0 }))
  if (old === young) return ''
  return (
    createTwoFilesPatch('before', 'after', old ?? '', young ?? '', undefined, undefined, {
      context: 3,
      timeout: LONGEST_DIFF_MS,
    }) ?? TOO_DIFFERENT
  )
}

const LONGEST_DIFF_MS = 500
const TOO_DIFFERENT = 'The definitions differ too much to be compared.'

/**
 * Returns the agent for a run that began with an earlier version. The agent behaves as that version defines, but has
 * only those of its tools that still exist. The definitions, addresses, headers and approval policies of tools are the
 * current ones, so that a restriction or removal of a tool takes effect immediately.
 */
export function agentAsPinned<A extends Agent & { tools: AgentTool[]; mcpServers: McpServer[] }>(
  agent: A,
  pinned: AgentDefinition | null,
): A {
  if (pinned === null) return agent
  const { description, instructions, model, fallbackModels, modelSettings, maxSteps, maxToolCalls } = pinned
  const { tokenBudget, phases, cycle, plainText } = pinned
  const isIn = (defined: readonly { name: string }[]) => (one: { name: string }) =>
    defined.some(({ name }) => name === one.name)
  return {
    ...agent,
    description,
    instructions,
    model,
    fallbackModels,
    modelSettings,
    maxSteps,
    maxToolCalls,
    tokenBudget,
    phases,
    cycle,
    plainText,
    tools: agent.tools.filter(isIn(pinned.tools)),
    mcpServers: agent.mcpServers.filter(isIn(pinned.mcpServers)),
  }
}
