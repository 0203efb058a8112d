import {
  type Agent,
  type AgentTool,
  type EntityKind,
  type Goal,
  type McpServer,
  type Memory,
  type Plan,
  Prisma,
  type Routing,
  type Run,
} from '../generated/prisma/client.ts'
import type { Platform } from '../platform/platform.ts'
import type { Claim } from '../runs/lifecycle.ts'
import { loadReadableText } from '../runs/readable-calls.ts'
import type { RunProgress, RunReport } from '../runs/run-progress.ts'
import { ACTIVE_STATUSES } from '../runs/runs.ts'
import type { History, HistoryLine } from '../spaces/history.ts'
import { type MessageOrigin, messageOfRow } from '../spaces/message.ts'
import { type ChainScene, loadChain } from './chain-section.ts'

/** A space that the agent belongs to. */
export interface SceneSpace {
  id: string
  name: string
  routing: Routing
  adminAgentId: string | null
  members: { id: string; name: string; kind: EntityKind; description: string | null }[]
}

export interface SceneRun extends Run {
  /** How far it has come; null where the agent is not told. */
  report: RunReport | null
}

export interface SceneAgent extends Agent {
  name: string
  tools: AgentTool[]
  mcpServers: McpServer[]
  memories: Memory[]
  goals: Goal[]
  plans: Plan[]
}

/** Everything that a run's prompt and tools are built from, as it is when the run is taken up. */
export interface Scene {
  agent: SceneAgent
  spaces: SceneSpace[]
  /** The agent's other queued, running or waiting runs, oldest first. */
  otherRuns: SceneRun[]
  /** The last messages of the trigger's space up to the trigger, oldest first; empty without one. */
  history: HistoryLine[]
  /** The message that triggered the run. */
  triggerMessage: HistoryLine | null
  /** Where the run's trigger came from. */
  origin: MessageOrigin
  /** The chain in which the run has its turn. */
  chain: ChainScene | null
}

export interface SceneLoader {
  load(claim: Claim): Promise<Scene>
  /** Reads anew what may have changed since: the agent's spaces, what it noted, in this run or another one, and its other runs. */
  refresh(claim: Claim, scene: Scene): Promise<void>
}

/** Far more than execute at once: a prompt has room for no more of those that wait. */
const MOST_OTHER_RUNS = 100

export function createSceneLoader(
  { db, config }: Platform,
  { history, runProgress }: { history: History; runProgress: RunProgress },
): SceneLoader {
  const { historyLimit } = config.limits

  /** With how far they have come, where the agent is told. */
  async function reported(otherRuns: Run[], { toolset, mind }: Agent): Promise<SceneRun[]> {
    const isTold = toolset === 'SPACE_TOOLS' && mind === 'STATELESS'
    const reports = isTold ? await runProgress.ofRuns(otherRuns) : new Map<string, RunReport>()
    return otherRuns.map((other) => ({ ...other, report: reports.get(other.id) ?? null }))
  }

  return {
    async load({ run }) {
      const [agent, spaces, otherRuns, lines, chain] = await Promise.all([
        loadAgent(db.prisma, run.agentId),
        loadSpaces(db.prisma, run.agentId),
        loadOtherRuns(db.prisma, run),
        run.triggerSpaceId === null || run.triggerType === 'INBOX'
          ? []
          : history.read({
              spaceId: run.triggerSpaceId,
              readerId: run.agentId,
              upToSeq: run.enteredSeq,
              limit: historyLimit,
            }),
        loadChain(db.prisma, run),
      ])
      const triggerMessage = lines.find(({ id }) => id === run.triggerMessageId) ?? null
      const origin = originSeen(run, spaces, triggerMessage) ?? (await loadOrigin(db.prisma, run))
      return {
        agent,
        spaces,
        otherRuns: await reported(otherRuns, agent),
        history: lines,
        triggerMessage,
        origin,
        chain,
      }
    },
    async refresh({ run }, scene) {
      const [knowledge, spaces, otherRuns] = await Promise.all([
        loadKnowledge(db.prisma, run.agentId),
        loadSpaces(db.prisma, run.agentId),
        loadOtherRuns(db.prisma, run),
      ])
      Object.assign(scene.agent, knowledge)
      scene.spaces = spaces
      scene.otherRuns = await reported(otherRuns, scene.agent)
    },
  }
}

/** The agent with all that belongs to it, in one statement. */
async function loadAgent(db: Prisma.TransactionClient, agentId: string): Promise<SceneAgent> {
  const rows = await db.$queryRaw<SceneAgent[]>`
    SELECT a.*, e.name,
      (SELECT coalesce(jsonb_agg(t ORDER BY t.position), '[]') FROM "AgentTool" t WHERE t."agentId" = a.id) AS tools,
      (SELECT coalesce(jsonb_agg(s ORDER BY s.position), '[]') FROM "McpServer" s WHERE s."agentId" = a.id) AS "mcpServers",
      ${KNOWLEDGE}
    FROM "Agent" a JOIN "Entity" e ON e.id = a.id WHERE a.id = ${agentId}`
  const [agent] = rows
  if (agent === undefined) throw new Error(`there is no agent ${agentId}`)
  return agent
}

type Knowledge = Pick<SceneAgent, 'memories' | 'goals' | 'plans'>

/** What an agent has noted for itself, as columns beside `a`. */
const KNOWLEDGE = Prisma.sql`
      (SELECT coalesce(jsonb_agg(m ORDER BY m.key), '[]') FROM "Memory" m WHERE m."agentId" = a.id) AS memories,
      (SELECT coalesce(jsonb_agg(g ORDER BY g.id), '[]') FROM "Goal" g WHERE g."agentId" = a.id AND g.status = 'ACTIVE') AS goals,
      (SELECT coalesce(jsonb_agg(p ORDER BY p.id), '[]') FROM "Plan" p WHERE p."agentId" = a.id AND p.enabled) AS plans`

async function loadKnowledge(db: Prisma.TransactionClient, agentId: string): Promise<Knowledge | undefined> {
  const [knowledge] = await db.$queryRaw<Knowledge[]>`SELECT ${KNOWLEDGE} FROM "Agent" a WHERE a.id = ${agentId}`
  return knowledge
}

function loadOtherRuns(db: Prisma.TransactionClient, { id, agentId }: Run): Promise<Run[]> {
  return db.run.findMany({
    where: { agentId, status: { in: ACTIVE_STATUSES }, id: { not: id } },
    orderBy: { id: 'asc' },
    take: MOST_OTHER_RUNS,
  })
}

async function loadSpaces(db: Prisma.TransactionClient, agentId: string): Promise<SceneSpace[]> {
  return db.$queryRaw<SceneSpace[]>`
    SELECT s.id, s.name, s.routing::text, s."adminAgentId", (
      SELECT jsonb_agg(jsonb_build_object('id', e.id, 'name', e.name, 'kind', e.kind, 'description', a.description) ORDER BY o."joinedAt", e.id)
      FROM "Membership" o JOIN "Entity" e ON e.id = o."entityId" LEFT JOIN "Agent" a ON a.id = e.id WHERE o."spaceId" = s.id
    ) AS members
    FROM "Membership" m JOIN "Space" s ON s.id = m."spaceId" WHERE m."entityId" = ${agentId} ORDER BY m."joinedAt", s.id`
}

function originOf({ triggerType, triggerName, triggerSpaceId }: Run): MessageOrigin {
  const unknown = { triggerSpaceName: null, triggerSenderName: null, triggerMessage: null }
  return { triggerType, triggerName, triggerSpaceId, ...unknown }
}

/** The origin, where the scene shows it already: nearly always. */
function originSeen(run: Run, spaces: SceneSpace[], message: HistoryLine | null): MessageOrigin | null {
  if (run.triggerSpaceId === null) return originOf(run)
  const space = spaces.find(({ id }) => id === run.triggerSpaceId)
  if (space === undefined || message === null || message.senderId !== run.triggerSenderId) return null
  const { sender: triggerSenderName, text: triggerMessage } = message
  return { ...originOf(run), triggerSpaceName: space.name, triggerSenderName, triggerMessage }
}

async function loadOrigin(db: Prisma.TransactionClient, run: Run): Promise<MessageOrigin> {
  const origin = originOf(run)
  const [row] = await db.$queryRaw<
    { spaceName: string; senderName: string | null; message: Parameters<typeof messageOfRow>[0] | null }[]
  >`
    SELECT s.name AS "spaceName", e.name AS "senderName", to_jsonb(m) AS message
    FROM "Space" s LEFT JOIN "Message" m ON m.id = ${run.triggerMessageId} LEFT JOIN "Entity" e ON e.id = ${run.triggerSenderId}
    WHERE s.id = ${run.triggerSpaceId}`
  if (row === undefined) return origin
  return {
    ...origin,
    triggerSpaceName: row.spaceName,
    triggerSenderName: row.senderName,
    triggerMessage: row.message === null ? null : await loadReadableText(db, messageOfRow(row.message).parts),
  }
}
