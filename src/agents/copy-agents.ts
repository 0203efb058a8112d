import type { Viewer } from '../access/viewer.ts'
import { isHeardBy } from '../confidentiality/world.ts'
import { Prisma } from '../generated/prisma/client.ts'
import { copiedId } from '../lib/copied-id.ts'
import { LimitExceededError } from '../lib/errors.ts'
import type { Tx } from '../platform/db.ts'
import type { SecretBox } from '../platform/secret-box.ts'
import { updateAgent } from '../stores/agent-store.ts'
import { recordCopiedAgents } from '../stores/copy-store.ts'
import { copyAgentRows, type Fork } from '../stores/fork-store.ts'
import { insertMcpServers, insertTools } from '../stores/tool-store.ts'
import { readDefinition } from './agent-definition.ts'
import { MOST_AGENTS } from './agents.ts'
import type { ApprovalPolicy } from './approval-policy.ts'
import { type HeadersOwner, openHeaders, type SealedHeaders, sealHeaders } from './outgoing-request.ts'
import { openRemoteHeaders, sealedFor } from './remote-agent.ts'
import type { ToolPhase } from './tool-phases.ts'
import { addVersion, authorOf } from './version-recording.ts'

/** The changes to one of the copies. */
export interface CopyChange {
  agentId: string
  instructions?: string
  model?: string
}

interface Copying {
  viewer: Viewer
  at: Date
  secretBox: SecretBox
  /** The ids of the spaces that the transaction has locked (`holdForkedSpace`, `holdSources`). */
  heldIds: readonly string[]
  change?: CopyChange
}

/**
 * Copies the agents of a space into its copy. In the copy, tools with external effects require approval. A copy has
 * only the memories and goals that the viewer may read, and no plans, standing grants, webhooks, notifications,
 * authorizations at MCP servers, or consciousness. It shares the budget of its original.
 * @throws LimitExceededError above the maximum number of agents
 */
export async function copyAgents(
  tx: Tx,
  fork: Fork,
  { viewer, at, secretBox, heldIds, change }: Copying,
): Promise<void> {
  const { agentIds, intoId } = fork
  if ((await tx.agent.count()) + agentIds.length > MOST_AGENTS)
    throw new LimitExceededError(`The server has the maximum of ${MOST_AGENTS} agents: delete some first.`)
  const isReadable = isHeardBy(Prisma.sql`${viewer.id}`, Prisma.sql`t.places || t.label`)
  await copyAgentRows(tx, fork, { isReadable, heldIds }, at)
  await recordCopiedAgents(tx, agentIds, { intoId, ownerId: viewer.scope === 'HUMAN' ? viewer.id : null })
  await copyTools(tx, fork, secretBox)
  await copyServers(tx, fork, secretBox)
  await copyRemotes(tx, fork, secretBox)
  for (const original of agentIds) {
    const agentId = copiedId(original, intoId)
    if (change?.agentId === original) await changeCopy(tx, agentId, change)
    const definition = await readDefinition(tx, agentId)
    const note = `Copy of ${original}`
    await addVersion(tx, { agentId, number: 1, definition }, { ...authorOf(viewer, note), at })
  }
}

async function changeCopy(tx: Tx, id: string, { instructions, model }: CopyChange): Promise<void> {
  const { phases } = await tx.agent.findUniqueOrThrow({ where: { id }, select: { phases: true } })
  const data = {
    ...(instructions === undefined ? {} : { instructions }),
    // One model replaces the models of all steps.
    ...(model === undefined
      ? {}
      : {
          model,
          fallbackModels: [],
          phases: (phases as unknown as ToolPhase[]).map((phase) => ({ ...phase, model: null })),
        }),
  }
  await updateAgent(tx, id, data as Prisma.AgentUncheckedUpdateInput)
}

const OF_ANY_MEMBER: ApprovalPolicy = {
  quorum: 1,
  approverIds: null,
  expiresInSeconds: null,
  escalateAfterSeconds: null,
  escalateToIds: null,
  patient: true,
}

async function copyTools(tx: Tx, { agentIds, intoId }: Fork, secretBox: SecretBox): Promise<void> {
  const tools = await tx.agentTool.findMany({ where: { agentId: { in: [...agentIds] } } })
  const data = tools.map(({ inputSchema, approval, resultSchema, ...tool }): Prisma.AgentToolCreateManyInput => {
    const actsOutside = tool.execution === 'HTTP' || tool.execution === 'EXTERNAL'
    return {
      ...tool,
      agentId: copiedId(tool.agentId, intoId),
      inputSchema: inputSchema as Prisma.InputJsonValue,
      approval: (approval as Prisma.InputJsonValue | null) ?? (actsOutside ? OF_ANY_MEMBER : Prisma.DbNull),
      resultSchema: (resultSchema as Prisma.InputJsonValue | null) ?? Prisma.DbNull,
      ...headersOfCopy('tool', tool, intoId, secretBox),
    }
  })
  await insertTools(tx, data)
}

async function copyServers(tx: Tx, { agentIds, intoId }: Fork, secretBox: SecretBox): Promise<void> {
  const servers = await tx.mcpServer.findMany({ where: { agentId: { in: [...agentIds] } } })
  const data = servers.map((server): Prisma.McpServerCreateManyInput => {
    const { approval, confidentialTools } = server
    return {
      ...server,
      agentId: copiedId(server.agentId, intoId),
      approval: (approval as Prisma.InputJsonValue | null) ?? OF_ANY_MEMBER,
      // Null means that all tools need approval.
      approvalTools: Prisma.DbNull,
      confidentialTools: (confidentialTools as Prisma.InputJsonValue | null) ?? Prisma.DbNull,
      fingerprints: server.fingerprints as Prisma.InputJsonValue,
      listing: (server.listing as Prisma.InputJsonValue | null) ?? Prisma.DbNull,
      problems: server.problems as Prisma.InputJsonValue,
      // A refresh of the tokens by the copy would invalidate the tokens of the original.
      oauthSealed: null,
      ...headersOfCopy('mcp', server, intoId, secretBox),
    }
  })
  await insertMcpServers(tx, data)
}

/** Here, the model of a copy is still the original's model. */
async function copyRemotes(tx: Tx, { agentIds, intoId }: Fork, secretBox: SecretBox): Promise<void> {
  const agents = await tx.agent.findMany({ where: { id: { in: [...agentIds] }, model: { startsWith: 'a2a:' } } })
  for (const agent of agents) {
    const { id: original, model, remoteHeadersSealed, remoteApproval } = agent
    const id = copiedId(original, intoId)
    const headers =
      remoteHeadersSealed === null ? {} : sealedFor(id, model, openRemoteHeaders(agent, model, secretBox), secretBox)
    const approval = remoteApproval === null ? { remoteApproval: OF_ANY_MEMBER } : {}
    await updateAgent(tx, id, { ...headers, ...approval })
  }
}

/** Encrypts the headers again, because an encrypted value is bound to one agent. */
function headersOfCopy(
  kind: HeadersOwner['kind'],
  owner: SealedHeaders & { agentId: string; name: string },
  intoId: string,
  secretBox: SecretBox,
): SealedHeaders {
  if (owner.headersSealed === null) return { headersSealed: null, headerNames: owner.headerNames }
  const headers = openHeaders(kind, owner, secretBox)
  return sealHeaders(
    headers,
    undefined,
    { kind, agentId: copiedId(owner.agentId, intoId), name: owner.name },
    secretBox,
  )
}
