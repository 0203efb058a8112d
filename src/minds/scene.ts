import {
  type Agent,
  type AgentTool,
  type EntityKind,
  type McpServer,
  Prisma,
  type Routing,
  type Run,
} from '../generated/prisma/client.ts'
import type { Json } from '../lib/json.ts'
import type { Platform } from '../platform/platform.ts'
import type { Claim } from '../runs/lifecycle.ts'
import { loadReadableText } from '../runs/readable-calls.ts'
import type { CallInBrief } from '../runs/run-progress.ts'
import type { History, HistoryLine } from '../spaces/history.ts'
import { type MessageOrigin, messageOfRow } from '../spaces/message.ts'
import { readOnFrom } from '../tools/space/read-messages.ts'
import { type ChainScene, loadChain } from './chain-section.ts'
import { loadTask } from './chain-task.ts'
import { type EventSource, originOfEvents } from './cycle-origin.ts'

/** A space that the agent belongs to. */
export interface SceneSpace {
  id: string
  name: string
  routing: Routing
  adminAgentId: string | null
  /** How near it is to what the run does: the active one and the trigger's first, then those joined last. */
  rank: number
  /** How many members it has. */
  size: number
  /** At most 100 of them, agents before humans; none of a space that is too far for them to be shown. In join order. */
  members: { id: string; name: string; kind: EntityKind; description: string | null }[]
}

/** Another run of the agent that is queued, running or waiting. */
export interface SceneRun
  extends Pick<
    Run,
    'id' | 'status' | 'triggerType' | 'triggerName' | 'triggerSpaceId' | 'triggerSummary' | 'startedAt'
  > {
  senderName: string | null
  spaceName: string | null
  /** Those that have no result, and the last one; null where the agent is not told of them. */
  calls: CallInBrief[] | null
}

/** What an agent has noted for itself. `newest`: 1 for what was written last. From JSON: a time is text. */
interface Knowledge {
  memories: { key: string; value: string; newest: number }[]
  goals: { id: string; description: string; newest: number }[]
  plans: {
    id: string
    name: string
    instruction: string
    cron: string | null
    nextRunAt: string | null
    newest: number
  }[]
}

export interface SceneAgent extends Agent, Knowledge {
  name: string
  tools: AgentTool[]
  mcpServers: McpServer[]
}

/** Everything that a run's prompt and tools are built from, as it is when the run is taken up. */
export interface Scene {
  agent: SceneAgent
  spaces: SceneSpace[]
  /** The agent's other queued, running or waiting runs, oldest first. */
  otherRuns: SceneRun[]
  /**
   * The last messages of the trigger's space up to the trigger, oldest first; empty without one, once the run has a step (what it
   * was shown first is in its journal then), and where the agent belongs to that space no more.
   */
  history: HistoryLine[]
  /** The message that triggered the run. */
  triggerMessage: HistoryLine | null
  /** Where the run's trigger came from. */
  origin: MessageOrigin
  /** Of a think cycle: the events that it has taken so far. */
  sources: EventSource[]
  /** The chain in which the run has its turn. */
  chain: ChainScene | null
  /** For who is called back in a chain: what began the chain, where that was something else than what is told anyway. */
  task: Json
}

/** Whether the agent is a member of the space; of none it cannot be. */
export function belongsTo({ spaces }: Pick<Scene, 'spaces'>, spaceId: string | null): boolean {
  return spaceId === null || spaces.some(({ id }) => id === spaceId)
}

export interface SceneLoader {
  load(claim: Claim): Promise<Scene>
  /** Reads anew what may have changed since: the agent's spaces, what it noted, in this run or another one, and its other runs. */
  refresh(claim: Claim, scene: Scene): Promise<void>
  /** What others said in a space since a call of the run was made; null where the agent is no member of it any more. */
  meanwhile(claim: Claim, since: { spaceId: string; callId: string }): Promise<Meanwhile | null>
}

/** What was said in a space for a while. */
export interface Meanwhile {
  spaceName: string
  /** Its last message now. */
  seq: number
  /** Oldest first. */
  lines: HistoryLine[]
}

/** Of the history that a prompt begins with, as JSON. */
const HISTORY_CHARACTERS = 60_000
/** Far more than execute at once: a prompt has room for no more of those that wait. */
const MOST_OTHER_RUNS = 100

export function createSceneLoader({ db, config }: Platform, { history }: { history: History }): SceneLoader {
  const { historyLimit } = config.limits

  return {
    async load({ run }) {
      const [agent, spaces, otherRuns, lines, chain, task, sources] = await Promise.all([
        loadAgent(db.prisma, run.agentId),
        loadSpaces(db.prisma, run),
        loadOtherRuns(db.prisma, run),
        run.triggerSpaceId === null || run.triggerType === 'INBOX' || run.stepCount > 0
          ? []
          : history.read({
              spaceId: run.triggerSpaceId,
              readerId: run.agentId,
              upToSeq: run.enteredSeq,
              limit: historyLimit,
              characters: HISTORY_CHARACTERS,
              whole: run.triggerMessageId,
              readOn: readOnFrom,
            }),
        loadChain(db.prisma, run),
        loadTask(db.prisma, run),
        run.triggerType === 'INBOX' ? loadSources(db.prisma, run) : [],
      ])
      const seen = belongsTo({ spaces }, run.triggerSpaceId) ? lines : []
      const triggerMessage = seen.find(({ id }) => id === run.triggerMessageId) ?? null
      const origin = originSeen(run, spaces, triggerMessage) ?? (await loadOrigin(db.prisma, run))
      return { agent, spaces, otherRuns, history: seen, triggerMessage, origin, sources, chain, task }
    },
    async refresh({ run }, scene) {
      const [knowledge, spaces, otherRuns] = await Promise.all([
        loadKnowledge(db.prisma, run.agentId),
        loadSpaces(db.prisma, run),
        loadOtherRuns(db.prisma, run),
      ])
      Object.assign(scene.agent, knowledge)
      scene.spaces = spaces
      scene.otherRuns = otherRuns
    },
    meanwhile: (claim, since) => loadMeanwhile(db.prisma, { history, historyLimit }, claim, since),
  }
}

async function loadMeanwhile(
  db: Prisma.TransactionClient,
  { history, historyLimit: limit }: { history: History; historyLimit: number },
  { run }: Claim,
  { spaceId, callId }: { spaceId: string; callId: string },
): Promise<Meanwhile | null> {
  const [space, call] = await Promise.all([
    history.enter(spaceId, run.agentId),
    db.toolCall.findUnique({ where: { id: callId }, select: { createdAt: true } }),
  ])
  if (space === null || call === null) return null
  const lines = await history.read({
    ...{ spaceId, readerId: run.agentId, upToSeq: space.lastSeq, since: { at: call.createdAt, butOfRun: run.id } },
    ...{ limit, characters: HISTORY_CHARACTERS, readOn: readOnFrom },
  })
  return { spaceName: space.name, seq: space.lastSeq, lines }
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

/** Far more of each than a prompt has room for: the newest. What they are shown by is chosen in the prompt. */
const KNOWLEDGE_CHARACTERS = 40_000

/** What an agent has noted for itself, as columns beside `a`: as much as can be shown, the newest first. */
const KNOWLEDGE = Prisma.sql`
      (SELECT coalesce(jsonb_agg(m ORDER BY m.key), '[]') FROM (
        SELECT key, value, row_number() OVER newest AS newest, sum(length(key) + length(value)) OVER newest AS reach
        FROM "Memory" WHERE "agentId" = a.id WINDOW newest AS (ORDER BY "updatedAt" DESC, key)
      ) m WHERE m.reach <= ${KNOWLEDGE_CHARACTERS}) AS memories,
      (SELECT coalesce(jsonb_agg(g ORDER BY g.id), '[]') FROM (
        SELECT id, description, row_number() OVER newest AS newest, sum(length(description)) OVER newest AS reach
        FROM "Goal" WHERE "agentId" = a.id AND status = 'ACTIVE' WINDOW newest AS (ORDER BY id DESC)
      ) g WHERE g.reach <= ${KNOWLEDGE_CHARACTERS}) AS goals,
      (SELECT coalesce(jsonb_agg(p ORDER BY p.id), '[]') FROM (
        SELECT id, name, instruction, cron, "nextRunAt", row_number() OVER newest AS newest, sum(length(instruction)) OVER newest AS reach
        FROM "Plan" WHERE "agentId" = a.id AND enabled WINDOW newest AS (ORDER BY id DESC)
      ) p WHERE p.reach <= ${KNOWLEDGE_CHARACTERS}) AS plans`

async function loadKnowledge(db: Prisma.TransactionClient, agentId: string): Promise<Knowledge | undefined> {
  const [knowledge] = await db.$queryRaw<Knowledge[]>`SELECT ${KNOWLEDGE} FROM "Agent" a WHERE a.id = ${agentId}`
  return knowledge
}

/** What they are at is read where the agent is told of it: stateless ones with SPACE_TOOLS. */
function loadOtherRuns(db: Prisma.TransactionClient, { id, agentId }: Run): Promise<SceneRun[]> {
  return db.$queryRaw<SceneRun[]>`
    SELECT r.id, r.status::text, r."triggerType"::text, r."triggerName", r."triggerSpaceId", r."triggerSummary", r."startedAt",
      e.name AS "senderName", s.name AS "spaceName",
      CASE WHEN a.toolset = 'SPACE_TOOLS' AND a.mind = 'STATELESS' THEN (
        SELECT coalesce(jsonb_agg(jsonb_build_object('toolName', c."toolName", 'status', c.status, 'execution', c.execution,
          'isSettled', c."settledAt" IS NOT NULL, 'waits', coalesce(c.state ? 'wait', false)) ORDER BY c.id), '[]')
        FROM "ToolCall" c WHERE c."runId" = r.id
          AND (c."settledAt" IS NULL OR c.id = (SELECT max(l.id) FROM "ToolCall" l WHERE l."runId" = r.id))
      ) END AS calls
    FROM "Run" r JOIN "Agent" a ON a.id = r."agentId" LEFT JOIN "Entity" e ON e.id = r."triggerSenderId"
    LEFT JOIN "Space" s ON s.id = r."triggerSpaceId"
    WHERE r."agentId" = ${agentId} AND r.status IN ('QUEUED', 'RUNNING', 'WAITING_TOOL') AND r.id <> ${id}
    ORDER BY r.id LIMIT ${MOST_OTHER_RUNS}`
}

/** Spaces of an agent that are looked at for one prompt, members of one of them, and members in all. */
const MOST_SPACES = 300
const MOST_MEMBERS = 100
const MOST_MEMBERS_IN_ALL = 1000

/** The nearest spaces; members only of those that are near enough for them to be shown. */
async function loadSpaces(db: Prisma.TransactionClient, { id, agentId }: Run): Promise<SceneSpace[]> {
  return db.$queryRaw<SceneSpace[]>`
    WITH own AS (
      SELECT s.id, s.name, s.routing::text, s."adminAgentId", m."joinedAt",
        (SELECT count(*) FROM "Membership" o WHERE o."spaceId" = s.id)::int AS size,
        CASE s.id WHEN r."activeSpaceId" THEN 0 WHEN r."triggerSpaceId" THEN 1 ELSE 2 END AS distance
      FROM "Membership" m JOIN "Space" s ON s.id = m."spaceId" LEFT JOIN "Run" r ON r.id = ${id}
      WHERE m."entityId" = ${agentId} ORDER BY distance, m."joinedAt" DESC, s.id DESC LIMIT ${MOST_SPACES}
    ), ranked AS (
      SELECT *, (row_number() OVER near)::int AS rank, sum(least(size, ${MOST_MEMBERS})) OVER near - least(size, ${MOST_MEMBERS}) AS before
      FROM own WINDOW near AS (ORDER BY distance, "joinedAt" DESC, id DESC)
    )
    SELECT id, name, routing, "adminAgentId", size, rank, CASE WHEN before < ${MOST_MEMBERS_IN_ALL} THEN (
      SELECT jsonb_agg(jsonb_build_object('id', n.id, 'name', n.name, 'kind', n.kind, 'description', n.description) ORDER BY n."joinedAt", n.id)
      FROM (
        SELECT e.id, e.name, e.kind, left(a.description, 300) AS description, o."joinedAt"
        FROM "Membership" o JOIN "Entity" e ON e.id = o."entityId" LEFT JOIN "Agent" a ON a.id = e.id
        WHERE o."spaceId" = ranked.id ORDER BY e.kind = 'HUMAN', o."joinedAt", e.id LIMIT ${MOST_MEMBERS}
      ) n) ELSE '[]' END AS members
    FROM ranked ORDER BY "joinedAt", id`
}

function loadSources(db: Prisma.TransactionClient, { id: runId }: Run): Promise<EventSource[]> {
  return db.inboxEvent.findMany({ where: { runId }, select: { type: true, spaceId: true, payload: true } })
}

/** What goes with a message that the run posts in a space: null where its trigger is from there. */
export function originIn({ origin, sources }: Scene, { run }: Claim, spaceId: string): MessageOrigin | null {
  if (sources.length > 0) return originOfEvents(sources, spaceId)
  return run.triggerSpaceId === spaceId ? null : origin
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
