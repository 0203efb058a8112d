import { createHash } from 'node:crypto'
import type { AgentDefinition } from '../agents/agent-definition.ts'
import { confidentialAmong } from '../confidentiality/marks.ts'
import type { Config } from '../config.ts'
import { Prisma } from '../generated/prisma/client.ts'
import { isForeignModel } from '../lib/foreign-model.ts'
import { oneLine } from '../lib/json.ts'
import type { Database } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'
import { withoutQueryValues } from '../rules/http-request.ts'
import { bytesOfFile } from './moved-files.ts'
import { readMovedRows } from './moving.ts'

/** The name of the format. The first line of a recording contains it together with the version. */
export const RECORDING_FORMAT = 'parley-recording'
export const RECORDING_VERSION = 1

/** The first line of a recording. */
export interface RecordingHeading {
  format: typeof RECORDING_FORMAT
  version: number
  /** The version of Parley that created the recording. */
  release: string
  spaceId: string
  /** When the recording was created, according to the clock of the exporting process. */
  at: string
  limits: RecordedLimits
  /**
   * Whether the server has other confidential spaces. If it has, the recording omits the instructions of steps and of
   * earlier agent versions.
   */
  hasOtherConfidential: boolean
  /**
   * Why the recording cannot be replayed. There is one sentence for each kind of missing data that influenced the
   * space.
   */
  lacks?: string[]
  /** The tables from which the recording omits rows, because they contain the agents' knowledge from other spaces. */
  omitted?: KnowledgeTable[]
  /** The prices of the models that the recorded agents use, in USD per million tokens. */
  prices: Record<string, { input: number; cachedInput: number; output: number }>
}

/** The limits that affect the behavior of a space. */
export type RecordedLimits = Pick<
  Config['limits'],
  | 'maxRunSeconds'
  | 'toolWaitSeconds'
  | 'approvalWaitSeconds'
  | 'maxChainDepth'
  | 'maxRootRuns'
  | 'maxReplyStack'
  | 'historyLimit'
>

/**
 * The tables that a recording contains in addition to the rows of an export: versions and notes of the agents, plans
 * and their firings, inbox events, and changes by people. `RunVersion` is the version of the agent with which a run
 * began.
 */
export const RECORDED_TABLES = [
  'AgentVersion',
  'Memory',
  'Goal',
  'Plan',
  'PlanFiring',
  'InboxEvent',
  'AuditEntry',
  'RunVersion',
] as const
export type RecordedTable = (typeof RECORDED_TABLES)[number]

const KNOWLEDGE_TABLES = ['Memory', 'Goal', 'Plan'] as const
export type KnowledgeTable = (typeof KNOWLEDGE_TABLES)[number]

interface RecordOptions {
  release: string
  limits: Config['limits']
  prices: Config['prices']
  /** The model of PARLEY_EMBEDDINGS; by default none. */
  embeddingModel?: string | null
}

/** People's actions whose time is only stored in the audit log. */
const RECORDED_ACTIONS = [
  'createSpace',
  'updateSpace',
  'addMember',
  'joinSpace',
  'removeMember',
  'stopRun',
  'retryRun',
] as const
/**
 * Actions on an agent that do not create a version of the agent. A recording omits the person who performed such an
 * action, and the other space that it concerns.
 */
const AGENT_ACTIONS = [
  'updateAgent',
  'setMemories',
  'deleteMemories',
  'setGoals',
  'deleteGoals',
  'updatePlan',
  'deletePlan',
  'forgetCycle',
  'forgetSpace',
  'resetConsciousness',
  'removeInboxEvent',
] as const
const ROWS_AT_ONCE = 200

/**
 * Yields a recording of a space as JSON lines. The first line is a heading. It is followed by the rows of an export,
 * the runs that plans, services and inboxes started only for this space, and the rows of RECORDED_TABLES. The last line
 * has the number of lines and their checksum. Like an export, the recording contains no secrets, email addresses or
 * external ids, and nothing from other confidential spaces. Query values are removed from URLs. The agents' knowledge
 * is included only if it comes from this space, does not belong to a space, or was read by a recorded run.
 * @throws Error with a one-line message if the space does not exist; StorageUnavailableError
 */
export async function* recordSpace(
  { db, files }: { db: Pick<Database, 'prisma'>; files: Pick<Platform['files'], 'read'> },
  spaceId: string,
  options: RecordOptions,
): AsyncGenerator<string> {
  const checksum = createHash('sha256')
  let lines = 0
  for await (const value of valuesOf({ db, files }, spaceId, options)) {
    const line = JSON.stringify(value)
    checksum.update(`${line}\n`)
    lines += 1
    yield line
  }
  yield JSON.stringify({ end: true, lines, sha256: checksum.digest('hex') })
}

async function* valuesOf(
  { db, files }: Parameters<typeof recordSpace>[0],
  spaceId: string,
  { release, limits, prices, embeddingModel = null }: RecordOptions,
): AsyncGenerator<object> {
  const { prisma } = db
  if ((await prisma.space.count({ where: { id: spaceId, deletedAt: null } })) === 0)
    throw new Error(`There is no space ${spaceId}.`)
  const agentIds = await agentsOf(prisma, spaceId)
  const heading: RecordingHeading = {
    format: RECORDING_FORMAT,
    version: RECORDING_VERSION,
    release,
    spaceId,
    at: new Date().toISOString(),
    limits: {
      maxRunSeconds: limits.maxRunSeconds,
      toolWaitSeconds: limits.toolWaitSeconds,
      approvalWaitSeconds: limits.approvalWaitSeconds,
      maxChainDepth: limits.maxChainDepth,
      maxRootRuns: limits.maxRootRuns,
      maxReplyStack: limits.maxReplyStack,
      historyLimit: limits.historyLimit,
    },
    hasOtherConfidential: (await prisma.space.count({ where: { confidential: true, id: { not: spaceId } } })) > 0,
    lacks: await lacksOf(prisma, spaceId, { embeddingModel }),
    omitted: await omittedOf(prisma, spaceId, agentIds),
    prices: await pricesOf(prisma, spaceId, { agentIds, prices }),
  }
  yield heading
  for await (const { table, row } of readMovedRows(db, spaceId, runsOfSpace(spaceId))) {
    yield { table, row: recordedRow(table, row) }
    if (table === 'File') yield* bytesOfFile(files, row as { id: string; hash: string })
  }
  yield* furtherRows(prisma, spaceId, agentIds)
}

/** Columns that contain a URL or the name of a model. */
const URL_COLUMNS = ['url', 'model', 'usageModel']
const TABLES_WITH_URLS = new Set(['Agent', 'AgentTool', 'McpServer', 'Run', 'Step'])

/** Removes external ids, and the query values of URLs. */
function recordedRow(table: string, row: Record<string, unknown>): Record<string, unknown> {
  if (table === 'Entity') return { ...row, externalId: null }
  if (!TABLES_WITH_URLS.has(table)) return row
  return Object.fromEntries(
    Object.entries(row).map(([name, value]) => {
      const isUrl = typeof value === 'string' && URL_COLUMNS.includes(name)
      return [name, isUrl ? withoutValues(name, value) : value]
    }),
  )
}

/** Removes the query values of a URL. A model's name can also be a URL. Other names stay unchanged. */
const withoutValues = (name: string, value: string): string =>
  name === 'url' || isForeignModel(value) ? withoutQueryValues(value) : value

/**
 * Condition on a run `t`: the run belongs to the space. A run belongs to the space if the space triggered it. A run
 * that a plan, a service or an inbox triggered also belongs to it, unless the run read or posted in another space. If
 * such a run did not read or post anywhere, its agent must be a member of this space and must never have been a member
 * of another one.
 */
export const runsOfSpace = (
  spaceId: string,
) => Prisma.sql`(t."triggerSpaceId" = ${spaceId} OR (t."triggerSpaceId" IS NULL
  AND t.places <@ ARRAY[${spaceId}]::text[]
  AND NOT EXISTS (SELECT 1 FROM "RunSpace" w WHERE w."runId" = t.id AND w."spaceId" <> ${spaceId})
  AND NOT EXISTS (SELECT 1 FROM "InboxEvent" e WHERE e."runId" = t.id AND e."spaceId" <> ${spaceId})
  AND (t."activeSpaceId" = ${spaceId}
    OR EXISTS (SELECT 1 FROM "RunSpace" w WHERE w."runId" = t.id)
    OR ${spaceId} = ANY(t.places)
    OR (t."activeSpaceId" IS NULL
      AND EXISTS (SELECT 1 FROM "Membership" m WHERE m."entityId" = t."agentId" AND m."spaceId" = ${spaceId}
        AND (m."joinedAt" IS NULL OR m."joinedAt" <= t."queuedAt"))
      AND NOT EXISTS (SELECT 1 FROM "Membership" m WHERE m."entityId" = t."agentId" AND m."spaceId" <> ${spaceId})
      AND NOT EXISTS (SELECT 1 FROM "FormerMember" m WHERE m."entityId" = t."agentId" AND m."spaceId" <> ${spaceId})))))`

/** Subquery that selects the ids of the recorded runs. */
const recordedRuns = (spaceId: string) => Prisma.sql`(SELECT t.id FROM "Run" t WHERE ${runsOfSpace(spaceId)})`

async function agentsOf(prisma: Database['prisma'], spaceId: string): Promise<string[]> {
  const rows = await prisma.$queryRaw<{ id: string }[]>`
    SELECT a.id FROM "Agent" a WHERE a.id IN (
      SELECT "entityId" FROM "Membership" WHERE "spaceId" = ${spaceId}
      UNION SELECT "entityId" FROM "FormerMember" WHERE "spaceId" = ${spaceId}
      UNION SELECT "senderId" FROM "Message" WHERE "spaceId" = ${spaceId}
      UNION SELECT "agentId" FROM "Run" WHERE "triggerSpaceId" = ${spaceId}) ORDER BY a.id`
  return rows.map(({ id }) => id)
}

async function pricesOf(
  prisma: Database['prisma'],
  spaceId: string,
  { agentIds, prices }: { agentIds: string[]; prices: Config['prices'] },
): Promise<RecordingHeading['prices']> {
  const names = await prisma.$queryRaw<{ model: string }[]>`
    SELECT DISTINCT x.model FROM (
      SELECT unnest(ARRAY[a.model] || a."fallbackModels") AS model FROM "Agent" a WHERE a.id = ANY(${agentIds}::text[])
      UNION ALL SELECT s.model FROM "Step" s WHERE s."runId" IN ${recordedRuns(spaceId)}) x ORDER BY x.model`
  return Object.fromEntries(
    names.flatMap(({ model }) => {
      const price = prices.get(model)
      return price === undefined ? [] : [[model, price]]
    }),
  )
}

/** Returns sentences about data that the recorded runs used and that is missing from the recording. */
async function lacksOf(
  prisma: Database['prisma'],
  spaceId: string,
  { embeddingModel }: { embeddingModel: string | null },
): Promise<string[]> {
  const calls = await prisma.$queryRaw<{ toolName: string; hasFiles: boolean }[]>`
    SELECT DISTINCT c."toolName", c.files IS NOT NULL AS "hasFiles" FROM "ToolCall" c
    WHERE c."runId" IN ${recordedRuns(spaceId)}
      AND (c.files IS NOT NULL OR (c.execution IS NULL AND c."toolName" = ANY(${SEARCHES}::text[])))
    ORDER BY c."toolName"`
  const agents = await prisma.$queryRaw<{ name: string; models: string[] }[]>`
    SELECT e.name, array_agg(DISTINCT x.model) AS models FROM (
      SELECT r."agentId", coalesce(v.definition->>'model', a.model) AS model FROM "Run" r JOIN "Agent" a ON a.id = r."agentId"
        LEFT JOIN "AgentVersion" v ON v."agentId" = r."agentId" AND v.number = r."agentVersion"
        WHERE r."startedAt" IS NOT NULL AND r.id IN ${recordedRuns(spaceId)}
      UNION SELECT r."agentId", s.model FROM "Step" s JOIN "Run" r ON r.id = s."runId" WHERE r.id IN ${recordedRuns(spaceId)}) x
    JOIN "Entity" e ON e.id = x."agentId" GROUP BY e.id, e.name ORDER BY e.name, e.id`
  const foreign = agents.filter(({ models }) => models.some(isForeignModel))
  return [
    ...foreign.map(
      ({ name }) =>
        `The agent ${JSON.stringify(oneLine(name))} runs on another server (its model begins with a2a: or mcp:), and the recording does not contain what was sent to that server or received from it.`,
    ),
    ...calls.flatMap(({ toolName, hasFiles }) => {
      if (hasFiles) return [`The tool ${oneLine(toolName)} returned files, which are not recorded.`]
      const isSearch = embeddingModel !== null && SEARCHES.includes(toolName)
      return isSearch ? [`The tool ${toolName} searched by meaning (PARLEY_EMBEDDINGS), which is not recorded.`] : []
    }),
  ]
}

const SEARCHES = ['search_messages', 'searchMessages']

/**
 * Condition on a row `t` with an agent's knowledge. The row must not be confidential in another space. It must come
 * from this space or from no space, or a recorded run must have read it in its instructions or in a tool result.
 */
function isKnownHere(table: KnowledgeTable, spaceId: string): Prisma.Sql {
  const runs = recordedRuns(spaceId)
  const shownAs =
    table === 'Memory' ? Prisma.sql`'- ' || to_json(t.key)::text || ': ' || to_json(t.value)::text` : Prisma.sql`t.id`
  return Prisma.sql`(${confidentialAmong(Prisma.sql`t.places || t.label`)} <@ ARRAY[${spaceId}]::text[]
    AND CASE WHEN (t.places || t.label) <@ ARRAY[${spaceId}]::text[] THEN true ELSE
      EXISTS (SELECT 1 FROM "Step" s JOIN "Run" r ON r.id = s."runId"
        WHERE r."agentId" = t."agentId" AND r.id IN ${runs} AND position(${shownAs} IN s.instructions) > 0)
      OR EXISTS (SELECT 1 FROM "ToolCall" c
        WHERE c."agentId" = t."agentId" AND c."runId" IN ${runs} AND position(t.id IN c.output::text) > 0) END)`
}

/**
 * Returns the tables of which the recording omits rows, because they contain the agents' knowledge from other spaces.
 */
async function omittedOf(prisma: Database['prisma'], spaceId: string, agentIds: string[]): Promise<KnowledgeTable[]> {
  const omitted: KnowledgeTable[] = []
  for (const table of KNOWLEDGE_TABLES) {
    const rows = await prisma.$queryRaw<unknown[]>`
      SELECT 1 FROM ${Prisma.raw(`"${table}"`)} t WHERE t."agentId" = ANY(${agentIds}::text[]) AND NOT ${isKnownHere(table, spaceId)} LIMIT 1`
    if (rows.length > 0) omitted.push(table)
  }
  return omitted
}

/** Yields the rows of RECORDED_TABLES that concern this space. */
async function* furtherRows(
  prisma: Database['prisma'],
  spaceId: string,
  agentIds: string[],
): AsyncGenerator<{ table: RecordedTable; row: object }> {
  const ofAgents = Prisma.sql`t."agentId" = ANY(${agentIds}::text[])`
  const runs = recordedRuns(spaceId)
  const isOpen = Prisma.sql`${confidentialAmong(Prisma.sql`t.places || t.label`)} <@ ARRAY[${spaceId}]::text[]`
  const ofRuns = Prisma.sql`t."runId" IN ${runs} AND ${isOpen}`
  const knowledge = (table: KnowledgeTable): [KnowledgeTable, Prisma.Sql] => [
    table,
    Prisma.sql`SELECT t.id, to_jsonb(t) AS row FROM ${Prisma.raw(`"${table}"`)} t WHERE ${ofAgents} AND ${isKnownHere(table, spaceId)}`,
  ]
  // A copied or imported space has messages that are older than the space.
  const begun = Prisma.sql`(SELECT least(s."createdAt", (SELECT min(m."createdAt") FROM "Message" m WHERE m."spaceId" = s.id))
    FROM "Space" s WHERE s.id = ${spaceId})`
  const inForce = Prisma.sql`(t."createdAt" >= ${begun} OR t.number =
    (SELECT max(v.number) FROM "AgentVersion" v WHERE v."agentId" = t."agentId" AND v."createdAt" < ${begun}))`
  // Instructions that were generated for another space can quote that space, so the recording contains the agent's
  // current instructions instead.
  const hasOthers = Prisma.sql`EXISTS (SELECT 1 FROM "Space" s WHERE s.confidential AND s.id <> ${spaceId})`
  const definition = Prisma.sql`CASE WHEN ${hasOthers}
    THEN jsonb_set(t.definition, '{instructions}', to_jsonb(a.instructions)) ELSE t.definition END`
  const selects: [RecordedTable, Prisma.Sql][] = [
    [
      'AgentVersion',
      Prisma.sql`SELECT t.id, to_jsonb(t) - 'note' || jsonb_build_object('definition', ${definition}) AS row
        FROM "AgentVersion" t JOIN "Agent" a ON a.id = t."agentId" WHERE ${ofAgents} AND ${inForce}`,
    ],
    ...KNOWLEDGE_TABLES.map(knowledge),
    [
      'PlanFiring',
      Prisma.sql`SELECT f.id, to_jsonb(f) AS row FROM "PlanFiring" f JOIN "Plan" t ON t.id = f."planId"
        WHERE ${ofAgents} AND ${isKnownHere('Plan', spaceId)} AND (f."rootId" IN (SELECT r."rootId" FROM "Run" r WHERE r.id IN ${runs})
          OR f."rootId" IN (SELECT t."rootId" FROM "InboxEvent" t WHERE ${ofAgents} AND ${ofRuns}))`,
    ],
    ['InboxEvent', Prisma.sql`SELECT t.id, to_jsonb(t) AS row FROM "InboxEvent" t WHERE ${ofAgents} AND ${ofRuns}`],
    [
      'AuditEntry',
      Prisma.sql`SELECT t.id, to_jsonb(t) AS row FROM "AuditEntry" t WHERE NOT t.refused AND t.action = ANY(${RECORDED_ACTIONS}::text[])
        AND (t."targetId" = ${spaceId} OR t.detail->>'spaceId' = ${spaceId} OR t."targetId" IN ${runs})
        UNION ALL SELECT t.id, jsonb_build_object('id', t.id, 'at', t.at, 'actorId', NULL, 'serviceName', NULL, 'action', t.action, 'refused', false,
          'targetId', coalesce(p."agentId", t."targetId"), 'detail', jsonb_strip_nulls(jsonb_build_object('paused', t.detail->'paused'))) AS row
        FROM "AuditEntry" t LEFT JOIN "Plan" p ON p.id = t."targetId"
        WHERE NOT t.refused AND t.action = ANY(${AGENT_ACTIONS}::text[]) AND coalesce(p."agentId", t."targetId") = ANY(${agentIds}::text[]) AND t.at >= ${begun}
          AND (t.action <> 'updateAgent' OR t.detail ? 'paused')`,
    ],
    [
      'RunVersion',
      Prisma.sql`SELECT t.id, jsonb_build_object('id', t.id, 'agentVersion', t."agentVersion", 'serviceId', t."triggerServiceId" IS NOT NULL) AS row
        FROM "Run" t WHERE ${runsOfSpace(spaceId)}`,
    ],
  ]
  for (const [table, select] of selects) {
    for (let after = ''; ; ) {
      const rows = await prisma.$queryRaw<{ id: string; row: object }[]>`
        SELECT x.id, x.row FROM (${select}) x WHERE x.id > ${after} ORDER BY x.id LIMIT ${ROWS_AT_ONCE}`
      for (const { row } of rows) yield { table, row: table === 'AgentVersion' ? recordedVersion(row) : row }
      if (rows.length < ROWS_AT_ONCE) break
      after = rows.at(-1)?.id ?? after
    }
  }
}

/** Removes the query values of the URLs in an agent's definition. */
function recordedVersion(row: object): object {
  const { definition } = row as { definition: AgentDefinition }
  const { model, tools, mcpServers } = definition
  return {
    ...row,
    definition: {
      ...definition,
      model: withoutValues('model', model),
      tools: tools.map((tool) => (tool.url == null ? tool : { ...tool, url: withoutQueryValues(tool.url) })),
      mcpServers: mcpServers.map((server) => ({ ...server, url: withoutQueryValues(server.url) })),
    },
  }
}
