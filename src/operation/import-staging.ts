import { Prisma } from '../generated/prisma/client.ts'
import { jsonbText } from '../lib/json.ts'
import type { Tx } from '../platform/db.ts'
import { MOVED_TABLES, type MovedTable, specOf } from './moved-tables.ts'

/** A row of the file that is valid on its own. */
export interface StagedRow {
  /** The row's line in the file. */
  line: number
  table: MovedTable
  row: Record<string, unknown>
}

/** The number of rows skipped for one reason. */
export interface LeftOut {
  table: string
  reason: string
  count: number
  firstLine: number
}

/**
 * Creates a temporary table for the rows of the file. Statements can then compare any number of rows with each other
 * and with existing rows. PostgreSQL drops the table at the end of the transaction.
 */
export async function createStaging(tx: Tx): Promise<void> {
  await tx.$executeRaw`
    CREATE TEMPORARY TABLE "ImportedRow" (
      line int NOT NULL, "table" text NOT NULL, key text NOT NULL, row jsonb NOT NULL, "isHere" boolean NOT NULL DEFAULT false,
      PRIMARY KEY ("table", key)
    ) ON COMMIT DROP`
}

const keyOf = ({ table, row }: StagedRow) =>
  specOf(table)
    .key.map((column) => String(row[column]))
    .join(' ')

/** @returns how many of the rows were in the table already */
export async function stage(tx: Tx, rows: readonly StagedRow[]): Promise<number> {
  const staged = rows.map((row) => ({ ...row, key: keyOf(row) }))
  const count = await tx.$executeRaw`
    INSERT INTO "ImportedRow" (line, "table", key, row)
    SELECT * FROM jsonb_to_recordset(${jsonbText(staged)}::jsonb) AS r (line int, "table" text, key text, row jsonb)
    ON CONFLICT DO NOTHING`
  return rows.length - count
}

/** The number of recent statements whose parameters Prisma keeps in memory for debugging. */
const REMEMBERED_STATEMENTS = 100
const MOST_REMEMBERED_CHARACTERS = 8 * 1024 * 1024

/**
 * Returns a function that the caller calls with the length of each large parameter. When the total is large, the
 * function executes small statements, so that Prisma forgets the large parameters.
 */
export function createForgetting(tx: Tx): (characters: number) => Promise<void> {
  let remembered = 0
  return async (characters) => {
    remembered += characters
    if (remembered < MOST_REMEMBERED_CHARACTERS) return
    for (let n = 0; n < REMEMBERED_STATEMENTS; n++) await tx.$queryRaw`SELECT 1`
    remembered = 0
  }
}

/** The tables whose rows can already exist on this server under the same id. */
const WITH_IDS: MovedTable[] = ['Entity', 'Chain', 'Run', 'Step', 'ToolCall', 'Message', 'File']
/** The tables in the order in which `settle` processes them: a row is processed after all rows to which it refers. */
const BY_DEPENDENCY: MovedTable[] = [
  'Entity',
  'Agent',
  'AgentTool',
  'McpServer',
  'Space',
  'FormerMember',
  'Chain',
  'Message',
  'Run',
  'RunSpace',
  'Step',
  'ToolCall',
  'Decision',
  'File',
  'ThreadReader',
  'ThreadTurn',
  'Outcome',
  'RootUsage',
  'Membership',
]
/** Columns that can also refer to an existing run of the same space, because runs are kept when a space is deleted. */
const RUNS_HERE_TOO = ['RunSpace.runId', 'Message.runId', 'Outcome.runId', 'Run.parentRunId', 'Run.retryOfId']

const HERE = 'already exists'
const NOT_BROUGHT = 'belongs to a row that the file does not contain'

/**
 * Skips rows of other spaces, rows that already exist, and rows with a reference to a row that is not imported. If the
 * column with such a reference is nullable, it is cleared instead. The import can then write the remaining rows without
 * changing existing rows.
 */
export async function settle(tx: Tx, spaceId: string): Promise<LeftOut[]> {
  // Provides the planner with statistics about the table for the key lookups below.
  await tx.$executeRaw`ANALYZE "ImportedRow"`
  const leftOut: LeftOut[] = []
  const leave = async (table: MovedTable, where: Prisma.Sql, reason: string) => {
    const [gone] = await tx.$queryRaw<{ count: number; firstLine: number }[]>`
      WITH gone AS (DELETE FROM "ImportedRow" t WHERE t."table" = ${table} AND ${where} RETURNING line)
      SELECT count(*)::int AS count, coalesce(min(line), 0)::int AS "firstLine" FROM gone`
    if (gone !== undefined && gone.count > 0) leftOut.push({ table, reason, ...gone })
  }
  await leave('Space', Prisma.sql`t.key <> ${spaceId}`, 'is not the space in the header of the file')
  await markHere(tx)
  await leaveAgents(leave)
  for (const table of BY_DEPENDENCY) {
    if (WITH_IDS.includes(table) && table !== 'Entity') await leave(table, Prisma.sql`t."isHere"`, HERE)
    for (const [column, { refersTo }] of Object.entries(specOf(table).columns)) {
      if (refersTo?.otherwise !== 'leave out') continue
      const isBrought = broughtSql(spaceId, { table, column, refersTo: refersTo.table })
      await leave(table, Prisma.sql`NOT ${isBrought}`, `${NOT_BROUGHT} (${column})`)
    }
    if (table === 'ToolCall') await leave(table, Prisma.sql`NOT ${isCallOfSpace}`, `${NOT_BROUGHT} (runId)`)
    if (table === 'Membership') await leave(table, Prisma.sql`NOT ${isMember}`, 'was deleted or erased')
  }
  await leaveUnnamed(leave)
  await clearReferences(tx, spaceId)
  await settleSpace(tx, spaceId)
  return leftOut
}

async function markHere(tx: Tx): Promise<void> {
  for (const table of WITH_IDS)
    await tx.$executeRaw`
      UPDATE "ImportedRow" t SET "isHere" = true
      WHERE t."table" = ${table} AND EXISTS (SELECT 1 FROM ${Prisma.raw(`"${table}"`)} h WHERE h.id = t.key)`
}

type Leave = (table: MovedTable, where: Prisma.Sql, reason: string) => Promise<void>

/**
 * Skips the settings, tools and MCP servers of agents that already exist or were deleted, and agents without settings.
 * So only agents that this import creates get settings, and nothing is written before this decision.
 */
async function leaveAgents(leave: Leave): Promise<void> {
  const agentHere = Prisma.sql`EXISTS (
    SELECT 1 FROM "ImportedRow" e WHERE e."table" = 'Entity' AND e.key = t.row->>'agentId' AND e."isHere")`
  for (const table of ['AgentTool', 'McpServer'] as const)
    await leave(table, agentHere, 'the agent already exists, and its settings are not changed')
  const isGone = Prisma.sql`EXISTS (
    SELECT 1 FROM "ImportedRow" e WHERE e."table" = 'Entity' AND e.key = t.key AND (e."isHere" OR e.row->>'goneAt' IS NOT NULL))`
  await leave('Agent', isGone, 'the agent already exists, so its settings are not changed, or it was deleted')
  const isIncomplete = Prisma.sql`NOT t."isHere" AND t.row->>'kind' = 'AGENT' AND t.row->>'goneAt' IS NULL AND NOT EXISTS (
    SELECT 1 FROM "ImportedRow" a WHERE a."table" = 'Agent' AND a.key = t.key)`
  await leave('Entity', isIncomplete, 'the settings of the agent are missing')
}

/**
 * Skips people and agents without a relation to the space, because everybody on this server can use an imported agent.
 */
async function leaveUnnamed(leave: Leave): Promise<void> {
  const isUnnamed = Prisma.sql`NOT t."isHere" AND t.key NOT IN (
    SELECT coalesce(n.row->>'entityId', n.row->>'senderId', n.row->>'humanId', n.row->>'agentId', n.row->>'ownerId') FROM "ImportedRow" n
    WHERE n."table" IN ('Membership', 'FormerMember', 'Message', 'Decision', 'Run', 'ToolCall', 'File', 'Outcome'))`
  await leave('Entity', isUnnamed, 'nothing in the space refers to this row')
  const isOfNobody = (column: string) => Prisma.sql`NOT EXISTS (
    SELECT 1 FROM "ImportedRow" e WHERE e."table" = 'Entity' AND e.key = t.row->>${column})`
  await leave('Agent', isOfNobody('id'), 'nothing in the space refers to this row')
  for (const table of ['AgentTool', 'McpServer'] as const)
    await leave(table, isOfNobody('agentId'), 'nothing in the space refers to the agent')
}

interface Reference {
  table: MovedTable
  column: string
  refersTo: MovedTable
}

/** Condition: the import contains the row to which the column of the staged row `t` refers. */
function broughtSql(spaceId: string, { table, column, refersTo }: Reference): Prisma.Sql {
  const value = Prisma.sql`t.row->>${column}`
  if (refersTo === 'Space') return Prisma.sql`(${value} = ${spaceId})`
  const staged = Prisma.sql`EXISTS (SELECT 1 FROM "ImportedRow" b WHERE b."table" = ${refersTo} AND b.key = ${value})`
  if (!RUNS_HERE_TOO.includes(`${table}.${column}`)) return staged
  return Prisma.sql`(${staged} OR EXISTS (SELECT 1 FROM "Run" h WHERE h.id = ${value} AND h."triggerSpaceId" = ${spaceId}))`
}

/** Condition: the call's run is imported, or the run does not exist on this server and a message shows the call. */
const isCallOfSpace = Prisma.sql`(
  EXISTS (SELECT 1 FROM "ImportedRow" b WHERE b."table" = 'Run' AND b.key = t.row->>'runId')
  OR (EXISTS (SELECT 1 FROM "ImportedRow" m WHERE m."table" = 'Message' AND m.key = t.row->>'messageId')
    AND NOT EXISTS (SELECT 1 FROM "Run" h WHERE h.id = t.row->>'runId')))`

const isMember = Prisma.sql`(
  NOT EXISTS (SELECT 1 FROM "Entity" h WHERE h.id = t.row->>'entityId' AND h."goneAt" IS NOT NULL)
  AND EXISTS (SELECT 1 FROM "ImportedRow" e WHERE e."table" = 'Entity' AND e.key = t.row->>'entityId' AND (e."isHere" OR e.row->>'goneAt' IS NULL)))`

/** Clears references to rows that are not imported, and unique keys that other rows could need. */
async function clearReferences(tx: Tx, spaceId: string): Promise<void> {
  for (const table of Object.keys(MOVED_TABLES) as MovedTable[]) {
    for (const [column, { refersTo, listsOnly }] of Object.entries(specOf(table).columns)) {
      if (refersTo?.otherwise === 'null')
        await tx.$executeRaw`
          UPDATE "ImportedRow" t SET row = t.row || jsonb_build_object(${column}::text, NULL)
          WHERE t."table" = ${table} AND t.row->>${column} IS NOT NULL
            AND NOT ${broughtSql(spaceId, { table, column, refersTo: refersTo.table })}`
      if (listsOnly !== undefined)
        await tx.$executeRaw`
          UPDATE "ImportedRow" t SET row = t.row || jsonb_build_object(${column}::text, (
            SELECT coalesce(jsonb_agg(one), '[]') FROM jsonb_array_elements_text(t.row->${column}) one
            WHERE EXISTS (SELECT 1 FROM "ImportedRow" b WHERE b."table" = ${listsOnly} AND b.key = one)))
          WHERE t."table" = ${table} AND jsonb_array_length(coalesce(t.row->${column}, '[]')) > 0`
    }
  }
  await tx.$executeRaw`
    UPDATE "ImportedRow" t SET row = t.row || '{"replyToId": null}'
    WHERE t."table" = 'Message' AND t.row->>'replyToId' IS NOT NULL AND t.row->>'threadRootId' IS NULL`
  // Keeps a `dedupKey` only if the key consists of the agent and a message of this space, so that no other trigger
  // can use it.
  await tx.$executeRaw`
    UPDATE "ImportedRow" t SET row = t.row || '{"dedupKey": null}' WHERE t."table" = 'Run' AND t.row->>'dedupKey' IS NOT NULL AND (
      t.row->>'triggerMessageId' IS NULL OR t.row->>'dedupKey' <> (t.row->>'agentId') || ':' || (t.row->>'triggerMessageId')
      OR EXISTS (SELECT 1 FROM "Run" h WHERE h."dedupKey" = t.row->>'dedupKey'))`
  await tx.$executeRaw`
    UPDATE "ImportedRow" t SET row = t.row || '{"retryOfId": null}' WHERE t."table" = 'Run' AND (
      EXISTS (SELECT 1 FROM "Run" h WHERE h."retryOfId" = t.row->>'retryOfId')
      OR EXISTS (SELECT 1 FROM "ImportedRow" b WHERE b."table" = 'Run' AND b.row->>'retryOfId' = t.row->>'retryOfId' AND b.line < t.line))`
  // Replaces roots that existing rows already use. Otherwise, the usage of existing and imported rows would be added
  // together.
  const isForeignRoot = Prisma.sql`NOT EXISTS (SELECT 1 FROM "ImportedRow" m WHERE m."table" = 'Message' AND m.key = t.row->>'rootId') AND (
    EXISTS (SELECT 1 FROM "Run" h WHERE h."rootId" = t.row->>'rootId')
    OR EXISTS (SELECT 1 FROM "RootUsage" h WHERE h."rootId" = t.row->>'rootId')
    OR EXISTS (SELECT 1 FROM "PlanFiring" h WHERE h."rootId" = t.row->>'rootId')
    OR EXISTS (SELECT 1 FROM "Message" h WHERE h.id = t.row->>'rootId'))`
  await tx.$executeRaw`
    UPDATE "ImportedRow" t SET row = t.row || jsonb_build_object('rootId', t.key)
    WHERE t."table" IN ('Run', 'Message') AND ${isForeignRoot}`
  // Removes parts of messages whose calls are not imported.
  await tx.$executeRaw`
    UPDATE "ImportedRow" t SET row = t.row || jsonb_build_object('parts', (
      SELECT coalesce(jsonb_agg(part ORDER BY n), '[]') FROM jsonb_array_elements(t.row->'parts') WITH ORDINALITY AS p (part, n)
      WHERE part->>'type' <> 'tool' OR EXISTS (SELECT 1 FROM "ImportedRow" c WHERE c."table" = 'ToolCall' AND c.key = part->>'toolCallId')
        OR EXISTS (SELECT 1 FROM "ToolCall" h WHERE h.id = part->>'toolCallId' AND h."messageId" = t.key AND h."spaceId" = ${spaceId})))
    WHERE t."table" = 'Message' AND t.row->'parts' @? '$[*] ? (@.type == "tool")'`
  // A part with a file that is not imported keeps the file's name.
  await tx.$executeRaw`
    UPDATE "ImportedRow" t SET row = t.row || jsonb_build_object('parts', (
      SELECT jsonb_agg(CASE
        WHEN part->>'type' <> 'file' THEN part
        WHEN f.key IS NULL THEN jsonb_build_object('type', 'text', 'text', '[File that was not imported: ' || (part->>'name') || ']')
        ELSE part || jsonb_build_object('name', f.row->'name', 'mediaType', f.row->'mediaType') END ORDER BY n)
      FROM jsonb_array_elements(t.row->'parts') WITH ORDINALITY AS p (part, n)
      LEFT JOIN "ImportedRow" f ON f."table" = 'File' AND f.key = part->>'fileId' AND f.row->>'messageId' = t.key))
    WHERE t."table" = 'Message' AND t.row->'parts' @? '$[*] ? (@.type == "file")'`
}

/**
 * Sets the space's message counter above the number of its last message. If the space was confidential on this server
 * before it was deleted, it stays confidential.
 */
async function settleSpace(tx: Tx, spaceId: string): Promise<void> {
  await tx.$executeRaw`
    UPDATE "ImportedRow" t SET row = t.row || jsonb_build_object(
      'lastSeq', last, 'firstSeq', least(coalesce((t.row->>'firstSeq')::int, 1), last + 1),
      'confidential', coalesce((t.row->>'confidential')::boolean, false) OR EXISTS (
        SELECT 1 FROM "Space" h WHERE h.id = ${spaceId} AND h.confidential))
    FROM (SELECT greatest(coalesce(max((m.row->>'seq')::int), 0), coalesce((
        SELECT (s.row->>'lastSeq')::int FROM "ImportedRow" s WHERE s."table" = 'Space'), 0)) AS last
      FROM "ImportedRow" m WHERE m."table" = 'Message') counted
    WHERE t."table" = 'Space'`
}

/**
 * Returns the spaces that appear in labels but do not exist on this server. The server must treat them as confidential.
 */
export async function missingLabels(tx: Tx, spaceId: string): Promise<string[]> {
  const rows = await tx.$queryRaw<{ id: string }[]>`
    SELECT DISTINCT marked.id FROM "ImportedRow" t, jsonb_array_elements_text(coalesce(t.row->'label', '[]')) AS marked (id)
    WHERE marked.id <> ${spaceId} AND NOT EXISTS (SELECT 1 FROM "Space" h WHERE h.id = marked.id) ORDER BY 1`
  return rows.map(({ id }) => id)
}

/** Yields the staged rows of a table in order, in pages. */
export async function* stagedRows(tx: Tx, table: MovedTable, most: number): AsyncGenerator<StagedRow[]> {
  for (let after = -1; ; ) {
    const rows = await tx.$queryRaw<StagedRow[]>`
      SELECT line, "table", row FROM "ImportedRow" WHERE "table" = ${table} AND NOT "isHere" AND line > ${after}
      ORDER BY line LIMIT ${most}`
    if (rows.length > 0) yield rows
    if (rows.length < most) return
    after = rows.at(-1)?.line ?? after
  }
}
