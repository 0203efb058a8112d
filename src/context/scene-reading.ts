import DataLoader from 'dataloader'
import { type AgentDefinition, agentAsPinned } from '../agents/agent-definition.ts'
import { confidentialAmong } from '../confidentiality/marks.ts'
import {
  type Agent,
  type AgentTool,
  type EntityKind,
  type McpServer,
  Prisma,
  type Routing,
  type Run,
} from '../generated/prisma/client.ts'
import { createTurns } from '../lib/turns.ts'
import { type BudgetState, budgetState } from '../platform/budget-state.ts'
import { isOneOf } from '../platform/one-of.ts'
import type { Platform } from '../platform/platform.ts'
import type { CallInBrief } from '../runs/run-progress.ts'
import type { Withheld } from '../runs/withheld.ts'
import type { HistoryRow } from '../spaces/history.ts'
import { ACTIVE_RUNS_SQL } from '../stores/status-sql.ts'
import { PINNED_DEFINITION_SQL } from '../stores/version-store.ts'
import type { EventSource } from './cycle-origin.ts'
import { CYCLE, GOAL, knowledgeBut, MEMORY, PLAN } from './knowledge-columns.ts'

/** A space of the run's agent. */
export interface SceneSpace {
  id: string
  name: string
  routing: Routing
  adminAgentId: string | null
  /**
   * The rank by relevance to the run. The active space and the trigger's space come first, followed by the spaces that
   * the agent joined most recently.
   */
  rank: number
  confidential: boolean
  /** For a confidential space: those requesters of the run that are members. */
  askersThere: string[]
  /** The number of members. */
  size: number
  /**
   * At most 100 members, in the order of joining, agents before humans. Empty if the space's rank is too low to show
   * its members.
   */
  members: { id: string; name: string; kind: EntityKind; description: string | null }[]
}

/** Another queued, running or waiting run of the agent. */
export interface SceneRun
  extends Pick<
    Run,
    'id' | 'status' | 'triggerType' | 'triggerName' | 'triggerSpaceId' | 'triggerSummary' | 'startedAt'
  > {
  senderName: string | null
  spaceName: string | null
  /** The label of the other run; null if this run may only see that the other run exists. */
  label: string[] | null
  /** The calls without a result, and the last call; null if they are not shown to the agent. */
  calls: CallInBrief[] | null
}

/**
 * The agent's notes and the budget of this run. `newest` is 1 for the latest note. Times are strings because the row is
 * JSON.
 */
export interface Knowledge {
  budgetState: BudgetState | null
  memories: { key: string; value: string; newest: number }[]
  goals: { id: string; description: string; newest: number }[]
  plans: {
    id: string
    name: string
    instruction: string
    cron: string | null
    timeZone: string
    nextRunAt: string | null
    newest: number
  }[]
}

export interface SceneAgent extends Agent, Knowledge {
  name: string
  tools: AgentTool[]
  mcpServers: McpServer[]
}

/** The parts of a scene that can change during a run. */
type Changing = Knowledge & Pick<Rows, 'spaces' | 'otherRuns' | 'worksIn' | 'keptMarks'> & { redactions: number }

/** A scene as read from the database. */
interface Rows {
  agent: SceneAgent
  spaces: SceneSpace[]
  otherRuns: SceneRun[]
  /**
   * The space in which the run works: the space of the trigger or, for a plan or a service, the space that the run has
   * entered.
   */
  worksIn: string | null
  /** The currently confidential spaces from which the agent's notes come. */
  keptMarks: string[]
  /** The currently confidential spaces from which the agent's think cycles come. */
  cycleMarks: string[]
  /**
   * Messages of the trigger's space outside of threads, newest first; empty for a trigger in a thread, for a think
   * cycle, and for a run that has a step.
   */
  lines: HistoryRow[]
  /** For a think cycle: the events that it has claimed so far. */
  sources: EventSource[]
}

/** Reads scenes by run id. Calls in the same tick share one statement. @throws Error for an unknown run */
export interface SceneReading {
  whole(runId: string): Promise<Rows>
  changing(runId: string): Promise<Changing>
  /**
   * Returns the agent's notes, with their marks, without notes from other confidential spaces than these. Also returns
   * the number of withheld notes by space.
   */
  openTo(agentId: string, openIds: readonly string[]): Promise<{ notes: MarkedNotes; withheld: Withheld[] }>
}

/** Like Knowledge, with the sources of each note. */
export type MarkedNotes = {
  [Kind in 'memories' | 'goals' | 'plans']: (Knowledge[Kind][number] & { marks: string[] })[]
}

/** `history` is SQL for a JSON array of messages in the trigger's space of a run `r`. */
export function createSceneReading({ db }: Pick<Platform, 'db'>, { history }: { history: Prisma.Sql }): SceneReading {
  const whole = together<Rows>(async (runIds) => {
    const rows = await db.query<WholeRow>(wholeStatement(runIds, history))
    return new Map(
      rows.map(({ runId, spaces, otherRuns, lines, sources, worksIn, keptMarks, cycleMarks, pinned, ...row }) => [
        runId,
        {
          agent: agentAsPinned(row, pinned),
          spaces,
          otherRuns: otherRuns.map(runOfJson),
          lines,
          sources,
          worksIn,
          keptMarks,
          cycleMarks,
        },
      ]),
    )
  })
  const changing = together<Changing>(async (runIds) => {
    const rows = await db.query<Changing & { runId: string }>(changingStatement(runIds))
    return new Map(rows.map(({ runId, ...row }) => [runId, { ...row, otherRuns: row.otherRuns.map(runOfJson) }]))
  })
  return {
    whole,
    changing,
    async openTo(agentId, openIds) {
      const [notes] = await db.query<MarkedNotes>(openStatement(agentId, openIds))
      const withheld = await db.query<Withheld>(withheldStatement(agentId, openIds))
      return { notes: notes ?? { memories: [], goals: [], plans: [] }, withheld }
    },
  }
}

type WholeRow = SceneAgent & Omit<Rows, 'agent'> & { runId: string; pinned: AgentDefinition | null }

/** How many runs continue per iteration of the event loop. If many runs are waiting, an eighth of them continues. */
const GOING_ON = { few: 4, crowdShare: 8 }

/**
 * The maximum number of runs per statement. It is low, because a statement of the embedded database blocks the whole
 * process.
 */
const MOST_TOGETHER = 4

/**
 * Combines the loads of one tick into one statement. Then lets a few callers continue per iteration of the event loop,
 * because each of them prepares a model call, which takes CPU time. If the statement fails, loads the scenes one by
 * one, so that a run does not fail because of another run.
 */
function together<T>(read: (runIds: readonly string[]) => Promise<Map<string, T>>): (runId: string) => Promise<T> {
  const turns = createTurns(GOING_ON)
  async function one(runId: string, rows: Map<string, T>): Promise<T> {
    const row = rows.get(runId)
    if (row === undefined) throw new Error(`there is no run ${runId}`)
    return row
  }
  const loader = new DataLoader<string, T>(
    async (runIds) => {
      const rows = await read(runIds).catch((error) => (runIds.length === 1 ? Promise.reject(error) : null))
      const each = runIds.map(async (runId) => one(runId, rows ?? (await read([runId]))))
      return (await Promise.allSettled(each)).map((end) => (end.status === 'fulfilled' ? end.value : end.reason))
    },
    { cache: false, maxBatchSize: MOST_TOGETHER },
  )
  return async (runId) => {
    const row = await loader.load(runId)
    await turns.next()
    return row
  }
}

/** Converts times, which are strings in JSON. */
const runOfJson = (run: SceneRun): SceneRun => ({
  ...run,
  startedAt: run.startedAt === null ? null : new Date(run.startedAt),
})

/**
 * Reads all notes. If some come from confidential spaces, a second statement reads the notes again, without the hidden
 * ones.
 */
const KNOWLEDGE = knowledgeBut(Prisma.sql`'{}'::text[]`)

const noted = (table: Prisma.Sql) => Prisma.sql`SELECT unnest(places || label) FROM ${table} WHERE "agentId" = a.id`

/** Selects the currently confidential spaces from which an agent `a` has rows in these tables. */
const marksIn = (...tables: Prisma.Sql[]) => Prisma.sql`
  CASE WHEN EXISTS (SELECT 1 FROM "Space" WHERE confidential) THEN ARRAY(
    SELECT s.id FROM "Space" s WHERE s.confidential AND s.id IN (${Prisma.join(tables.map(noted), ' UNION ')}) ORDER BY s.id)
  ELSE '{}'::text[] END`

/** A column for the agent `a` of a run `r`, with the recalled part of the consciousness. */
const RECALL = Prisma.sql`
  CASE WHEN r."triggerSpaceId" IS NOT NULL THEN r."triggerSpaceId"
    WHEN NOT EXISTS (SELECT 1 FROM "InboxEvent" i WHERE i."runId" = r.id AND i."spaceId" IS NOT NULL AND NOT i.quiet AND r."triggerType" = 'INBOX')
    THEN r."activeSpaceId" END AS "worksIn",
  ${marksIn(MEMORY, GOAL, PLAN)} AS "keptMarks"`

/**
 * Selects the spaces from which the agent's notes come, and which are confidential when this statement is executed,
 * except the open ones.
 */
const hiddenNow = (agentId: string, openIds: readonly string[]) => Prisma.sql`
  SELECT h.id FROM "Agent" a, unnest(${marksIn(MEMORY, GOAL, PLAN)}) AS h(id) WHERE a.id = ${agentId} AND h.id <> ALL(${[...openIds]}::text[])`

const openStatement = (agentId: string, openIds: readonly string[]) => Prisma.sql`
  WITH hidden AS MATERIALIZED (SELECT ARRAY(${hiddenNow(agentId, openIds)}) AS ids)
  SELECT ${knowledgeBut(Prisma.sql`(SELECT ids FROM hidden)`)} FROM "Agent" a WHERE a.id = ${agentId}`

const withheldStatement = (agentId: string, openIds: readonly string[]) => {
  const count = (table: Prisma.Sql) =>
    Prisma.sql`(SELECT count(*) FROM ${table} WHERE "agentId" = ${agentId} AND places || label @> ARRAY[h.id])::int`
  return Prisma.sql`
    SELECT h.id AS "spaceId", ${count(MEMORY)} AS memories, ${count(GOAL)} AS goals, ${count(PLAN)} AS plans, 0 AS cycles
    FROM (${hiddenNow(agentId, openIds)}) AS h ORDER BY h.id`
}

/** A column with the budget state of a run `r`. */
const BUDGET = Prisma.sql`${budgetState({
  agentId: Prisma.sql`r."agentId"`,
  spaceId: Prisma.sql`coalesce(r."deepestSpaceId", r."triggerSpaceId")`,
  rootId: Prisma.sql`r."rootId"`,
  requesters: Prisma.sql`r.askers`,
})} AS "budgetState"`

/**
 * The maximum number of other runs that are read. This is far more than can execute concurrently or fit into a prompt.
 */
const MOST_OTHER_RUNS = 100

/**
 * A column with the other runs of the agent `a` of a run `r`. The calls of these runs are read only if the agent is
 * stateless and has SPACE_TOOLS, because they are shown only to such agents.
 */
const OTHER_RUNS = Prisma.sql`(
  SELECT coalesce(jsonb_agg(to_jsonb(other) ORDER BY other.id), '[]') FROM (
    SELECT o.id, o.status, o."triggerType", o."triggerName", o."triggerSpaceId", o."triggerSummary", o."startedAt",
      e.name AS "senderName", s.name AS "spaceName", ${confidentialAmong(Prisma.sql`o.places || o.label`)} AS label,
      CASE WHEN a.toolset = 'SPACE_TOOLS' AND a.mind = 'STATELESS' THEN (
        SELECT coalesce(jsonb_agg(jsonb_build_object('toolName', c."toolName", 'status', c.status, 'execution', c.execution,
          'isSettled', c."settledAt" IS NOT NULL, 'waits', coalesce(c.state ? 'wait', false)) ORDER BY c.id), '[]')
        FROM "ToolCall" c WHERE c."runId" = o.id
          AND (c."settledAt" IS NULL OR c.id = (SELECT max(l.id) FROM "ToolCall" l WHERE l."runId" = o.id))
      ) END AS calls
    FROM "Run" o LEFT JOIN "Entity" e ON e.id = o."triggerSenderId" LEFT JOIN "Space" s ON s.id = o."triggerSpaceId"
    WHERE o."agentId" = r."agentId" AND o.status IN ${ACTIVE_RUNS_SQL} AND o.id <> r.id
    ORDER BY o.id LIMIT ${MOST_OTHER_RUNS}
  ) other) AS "otherRuns"`

/** The limits for one prompt: the agent's spaces, the members of one space, and the members in total. */
const MOST_SPACES = 300
const MOST_MEMBERS = 100
const MOST_MEMBERS_IN_ALL = 1000

/**
 * A column with the most relevant spaces for a run `r`. Members are read only for the spaces whose rank is high enough
 * to show them.
 */
const SPACES = Prisma.sql`(
  WITH own AS (
    SELECT s.id, s.name, s.routing, s."adminAgentId", m."joinedAt", s.confidential,
      CASE WHEN s.confidential THEN ARRAY(SELECT k."entityId" FROM "Membership" k WHERE k."spaceId" = s.id AND k."entityId" = ANY(r.askers))
        ELSE '{}'::text[] END AS "askersThere",
      (SELECT count(*) FROM "Membership" o WHERE o."spaceId" = s.id)::int AS size,
      CASE s.id WHEN r."activeSpaceId" THEN 0 WHEN r."triggerSpaceId" THEN 1 ELSE 2 END AS distance
    FROM "Membership" m JOIN "Space" s ON s.id = m."spaceId"
    WHERE m."entityId" = r."agentId" ORDER BY distance, m."joinedAt" DESC, s.id DESC LIMIT ${MOST_SPACES}
  ), ranked AS (
    SELECT *, (row_number() OVER near)::int AS rank, sum(least(size, ${MOST_MEMBERS})) OVER near - least(size, ${MOST_MEMBERS}) AS before
    FROM own WINDOW near AS (ORDER BY distance, "joinedAt" DESC, id DESC)
  )
  SELECT coalesce(jsonb_agg(jsonb_build_object('id', id, 'name', name, 'routing', routing, 'adminAgentId', "adminAgentId",
    'confidential', confidential, 'askersThere', "askersThere", 'size', size, 'rank', rank, 'members', CASE WHEN before < ${MOST_MEMBERS_IN_ALL} THEN (
      SELECT jsonb_agg(jsonb_build_object('id', n.id, 'name', n.name, 'kind', n.kind, 'description', n.description) ORDER BY n."joinedAt", n.id)
      FROM (
        SELECT e.id, e.name, e.kind, left(d.description, 300) AS description, o."joinedAt"
        FROM "Membership" o JOIN "Entity" e ON e.id = o."entityId" LEFT JOIN "Agent" d ON d.id = e.id
        WHERE o."spaceId" = ranked.id ORDER BY e.kind = 'HUMAN', o."joinedAt", e.id LIMIT ${MOST_MEMBERS}
      ) n) ELSE '[]' END) ORDER BY "joinedAt", id), '[]')
  FROM ranked) AS spaces`

const SOURCES = Prisma.sql`(
  SELECT coalesce(jsonb_agg(jsonb_build_object('type', i.type, 'spaceId', i."spaceId", 'payload', i.payload) ORDER BY i.id), '[]')
  FROM "InboxEvent" i WHERE i."runId" = r.id AND r."triggerType" = 'INBOX' AND NOT i.quiet) AS sources`

const isOneOfRuns = (runIds: readonly string[]) => isOneOf(Prisma.sql`r.id`, runIds)

const wholeStatement = (runIds: readonly string[], history: Prisma.Sql) => Prisma.sql`
  SELECT r.id AS "runId", a.*, e.name,
    (SELECT coalesce(jsonb_agg(t ORDER BY t.position), '[]') FROM "AgentTool" t WHERE t."agentId" = a.id) AS tools,
    (SELECT coalesce(jsonb_agg(s ORDER BY s.position), '[]') FROM "McpServer" s WHERE s."agentId" = a.id) AS "mcpServers",
    ${PINNED_DEFINITION_SQL} AS pinned, ${KNOWLEDGE}, ${RECALL}, ${marksIn(CYCLE)} AS "cycleMarks", ${BUDGET}, ${SPACES}, ${OTHER_RUNS}, ${SOURCES},
    CASE WHEN r."triggerSpaceId" IS NULL OR r."threadRootId" IS NOT NULL OR r."triggerType" = 'INBOX' OR r."stepCount" > 0 THEN '[]' ELSE (${history}) END AS lines
  FROM "Run" r JOIN "Agent" a ON a.id = r."agentId" JOIN "Entity" e ON e.id = a.id WHERE ${isOneOfRuns(runIds)}`

const changingStatement = (runIds: readonly string[]) => Prisma.sql`
  SELECT r.id AS "runId", r.redactions, ${KNOWLEDGE}, ${RECALL}, ${BUDGET}, ${SPACES}, ${OTHER_RUNS}
  FROM "Run" r JOIN "Agent" a ON a.id = r."agentId" WHERE ${isOneOfRuns(runIds)}`
