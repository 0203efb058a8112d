import { MOST_MEMBERS } from '../flows/join-space.ts'
import { Prisma } from '../generated/prisma/client.ts'
import { parseForeignModel } from '../lib/foreign-model.ts'
import { jsonbText, oneLine } from '../lib/json.ts'
import type { Database, Tx } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'
import { insertImportedTexts } from '../stores/file-store.ts'
import { deleteRemains, insertRemains } from '../stores/space-store.ts'
import { type LeftOutList, NO_EXPORT, readAll } from './import-reading.ts'
import { createForgetting, type LeftOut, missingLabels, settle, stagedRows } from './import-staging.ts'
import { MOVED_TABLES, type MovedTable, specOf } from './moved-tables.ts'

export interface ImportOptions {
  /** Whether to read and validate everything without writing anything. */
  dryRun?: boolean
  /**
   * Whether to trust the external ids in the file. If true, an imported human with the `externalId` of an existing
   * human becomes that human, and all other humans get their `externalId`. If false, no `externalId` is imported, and
   * the import fails if the file contains an existing human's `externalId`.
   */
  trustExternalIds?: boolean
}

/** The result of an import or dry run. */
export interface Imported {
  spaceId: string
  /** The created agents, with every address that their tools use. */
  agents: NewAgent[]
  /** Existing people and agents to which the space refers as members, senders or deciders. */
  here: { id: string; name: string }[]
  /** The number of written rows by table. */
  counts: Partial<Record<MovedTable, number>>
  leftOut: LeftOut[]
}

export interface NewAgent {
  id: string
  name: string
  tools: { name: string; execution: string; url: string | null; mayReceiveConfidential: boolean }[]
  mcpServers: { name: string; url: string; mayReceiveConfidential: boolean }[]
  /** The agent on another server that this agent represents. */
  remote: { cardUrl: string; mayReceiveConfidential: boolean } | null
}

const ROWS_AT_ONCE = 200
const LARGE_ROWS_AT_ONCE = 20
const LARGE_TABLES: MovedTable[] = ['Run', 'Step', 'ToolCall']
const MOST_PEOPLE = 10_000
const MOST_LABELS = 1000
const LONGEST_IMPORT_MS = 12 * 3_600_000
const IMPORT_LOCK = 7_275_541

/**
 * Imports a space from the lines of an export, in one transaction. An import that is refused or interrupted changes
 * nothing and can be repeated. Writes the rows of the space in the heading, and the people and agents in the file, but
 * does not change existing people and agents.
 *
 * Runs that were active at the time of the export become CANCELED with the reason GONE, and unfinished messages become
 * INTERRUPTED. If labels contain a confidential space that does not exist on this server, the import writes a row
 * without a name for it. A deleted space also leaves such a row. So the labels still restrict who may read.
 *
 * Holds one batch of rows in memory at a time. If an import fails, the server deletes the stored bytes of its files
 * after an hour.
 * @throws Error with a one-line message if the lines are not an export, or if the space already exists;
 * StorageUnavailableError
 */
export async function importSpace(
  { db, ...platform }: { db: Pick<Database, 'prisma'> } & Pick<Platform, 'files' | 'config'>,
  lines: AsyncIterable<string> | Iterable<string>,
  { dryRun = false, trustExternalIds = false }: ImportOptions = {},
): Promise<Imported> {
  let imported: Imported | undefined
  const work = async (tx: Tx) => {
    // The timeouts are disabled, because lines can arrive slowly, and statements over all rows can take long.
    await tx.$executeRaw`SET LOCAL idle_in_transaction_session_timeout = 0`
    await tx.$executeRaw`SET LOCAL statement_timeout = 0`
    await tx.$queryRaw`SELECT 1 FROM (SELECT pg_advisory_xact_lock(${IMPORT_LOCK})) locked`
    const { spaceId, leftOut } = await readAll(tx, lines, { platform, dryRun })
    const people = await findPeople(tx, trustExternalIds)
    for (const one of await settle(tx, spaceId)) leftOut.add(one)
    await checkLimits(tx, spaceId)
    if (people.withoutExternalId !== null) leftOut.add(people.withoutExternalId)
    const plan = { spaceId, agents: await newAgents(tx), here: await peopleHere(tx) }
    const counts = dryRun ? await countStaged(tx) : await writeAll(tx, spaceId, { names: people.names, leftOut })
    imported = { ...plan, counts, leftOut: leftOut.all() }
    if (dryRun) throw new DryRunOver()
  }
  try {
    await db.prisma.$transaction(work, { maxWait: 20_000, timeout: LONGEST_IMPORT_MS })
  } catch (error) {
    if (!(error instanceof DryRunOver)) throw error
  }
  if (imported === undefined) throw new Error(NO_EXPORT)
  return imported
}

/** Thrown to roll back the transaction of a dry run. */
class DryRunOver extends Error {}

interface People {
  /** Maps ids in the file to the ids of the same people on this server. */
  names: ReadonlyMap<string, string>
  withoutExternalId: LeftOut | null
}

/**
 * Finds people in the file who exist on this server under another id, by their `externalId`.
 * @throws Error if there is such a person and the file is not trusted
 */
async function findPeople(tx: Tx, trustExternalIds: boolean): Promise<People> {
  const same = await tx.$queryRaw<{ from: string; to: string; name: string }[]>`
    SELECT t.key AS from, h.id AS to, t.row->>'name' AS name FROM "ImportedRow" t
    JOIN "Entity" h ON h."externalId" = t.row->>'externalId'
    WHERE t."table" = 'Entity' AND t.key <> h.id AND NOT EXISTS (SELECT 1 FROM "Entity" e WHERE e.id = t.key)
    ORDER BY t.line`
  const [first] = same
  if (trustExternalIds) {
    // These humans exist on this server under another id.
    await tx.$executeRaw`
      UPDATE "ImportedRow" t SET row = t.row || '{"externalId": null}' WHERE t."table" = 'Entity' AND EXISTS (
        SELECT 1 FROM "ImportedRow" b WHERE b."table" = 'Entity' AND b.row->>'externalId' = t.row->>'externalId' AND b.line < t.line)`
    for (const { from } of same)
      await tx.$executeRaw`UPDATE "ImportedRow" SET row = row || '{"externalId": null}' WHERE "table" = 'Entity' AND key = ${from}`
    return { names: new Map(same.map(({ from, to }) => [from, to])), withoutExternalId: null }
  }
  if (first !== undefined)
    throw new Error(
      `${JSON.stringify(oneLine(first.name))} (${first.from}) has the same externalId as ${first.to}, who already exists: if you trust the file, import it with --trust-external-ids, which treats both as one human.`,
    )
  const [cleared] = await tx.$queryRaw<{ count: number; firstLine: number }[]>`
    WITH cleared AS (
      UPDATE "ImportedRow" t SET row = t.row || '{"externalId": null}' WHERE t."table" = 'Entity' AND t.row->>'externalId' IS NOT NULL
        AND NOT EXISTS (SELECT 1 FROM "Entity" e WHERE e.id = t.key) RETURNING line
    ) SELECT count(*)::int AS count, coalesce(min(line), 0)::int AS "firstLine" FROM cleared`
  const reason = 'the externalId is imported only with --trust-external-ids; set it with updateHuman'
  return {
    names: new Map(),
    withoutExternalId:
      (cleared?.count ?? 0) === 0
        ? null
        : { table: 'Entity.externalId', reason, count: cleared?.count ?? 0, firstLine: cleared?.firstLine ?? 0 },
  }
}

async function checkLimits(tx: Tx, spaceId: string): Promise<void> {
  const counts = await countStaged(tx)
  if (counts.Space === undefined)
    throw new Error(
      `The file has no valid row for its space ${spaceId}: the file is damaged or incomplete. Export the space again.`,
    )
  if ((counts.Entity ?? 0) > MOST_PEOPLE)
    throw new Error(`The file contains ${counts.Entity} people and agents; the maximum is ${MOST_PEOPLE}.`)
  if ((counts.Membership ?? 0) > MOST_MEMBERS)
    throw new Error(`The file contains ${counts.Membership} members; a space has at most ${MOST_MEMBERS}.`)
  const labels = await missingLabels(tx, spaceId)
  if (labels.length > MOST_LABELS)
    throw new Error(
      `The confidentiality labels in the file refer to ${labels.length} spaces that do not exist here; the maximum is ${MOST_LABELS}.`,
    )
}

async function countStaged(tx: Tx): Promise<Partial<Record<MovedTable, number>>> {
  const rows = await tx.$queryRaw<{ table: MovedTable; count: number }[]>`
    SELECT "table", count(*)::int AS count FROM "ImportedRow" WHERE NOT "isHere" GROUP BY 1`
  const counts = new Map(rows.map(({ table, count }) => [table, count]))
  return Object.fromEntries(tablesInOrder().flatMap((table) => (counts.has(table) ? [[table, counts.get(table)]] : [])))
}

const tablesInOrder = () => Object.keys(MOVED_TABLES) as MovedTable[]

async function newAgents(tx: Tx): Promise<NewAgent[]> {
  const rows = await tx.$queryRaw<{ table: MovedTable; key: string; row: Record<string, unknown> }[]>`
    SELECT t."table", coalesce(t.row->>'agentId', t.key) AS key, t.row - 'inputSchema' - 'resultSchema' - 'listing' - 'instructions' AS row
    FROM "ImportedRow" t WHERE t."table" IN ('Agent', 'AgentTool', 'McpServer') ORDER BY t.line`
  const named = await tx.$queryRaw<{ id: string; name: string }[]>`
    SELECT key AS id, row->>'name' AS name FROM "ImportedRow" WHERE "table" = 'Entity' AND row->>'kind' = 'AGENT'`
  const names = new Map(named.map(({ id, name }) => [id, name]))
  const of = (table: MovedTable, agentId: string) =>
    rows.filter((one) => one.table === table && one.key === agentId).map(({ row }) => row)
  return rows
    .filter(({ table }) => table === 'Agent')
    .map(({ key: id, row }) => ({
      id,
      name: names.get(id) ?? '',
      tools: of('AgentTool', id).map((row) => ({
        name: String(row['name']),
        execution: String(row['execution']),
        url: (row['url'] ?? null) as string | null,
        mayReceiveConfidential: row['mayReceiveConfidential'] === true,
      })),
      mcpServers: of('McpServer', id).map((row) => ({
        name: String(row['name']),
        url: String(row['url']),
        mayReceiveConfidential: row['mayReceiveConfidential'] === true,
      })),
      remote: remoteIn(row),
    }))
}

function remoteIn(row: Record<string, unknown>): NewAgent['remote'] {
  const foreign = parseForeignModel(String(row['model']))
  const mayReceiveConfidential = row['remoteMayReceiveConfidential'] === true
  return foreign?.type === 'a2a' ? { cardUrl: foreign.cardUrl, mayReceiveConfidential } : null
}

const peopleHere = (tx: Tx) => tx.$queryRaw<{ id: string; name: string }[]>`
  SELECT h.id, h.name FROM "ImportedRow" t JOIN "Entity" h ON h.id = t.key WHERE t."table" = 'Entity' AND t."isHere" ORDER BY h.id`

async function writeAll(
  tx: Tx,
  spaceId: string,
  { names, leftOut }: { names: ReadonlyMap<string, string>; leftOut: LeftOutList },
): Promise<Imported['counts']> {
  const counts: Imported['counts'] = {}
  const missing = await missingLabels(tx, spaceId)
  // If the space was deleted on this server, the imported row replaces the row that was kept.
  await deleteRemains(tx, spaceId)
  const forget = createForgetting(tx)
  await insertRemains(tx, missing, new Date())
  for (const table of tablesInOrder()) {
    const most = LARGE_TABLES.includes(table) ? LARGE_ROWS_AT_ONCE : ROWS_AT_ONCE
    for await (const page of stagedRows(tx, table, most)) {
      const rows = page.filter(({ row }) => table !== 'Entity' || !names.has(String(row['id'])))
      const written = await insert(
        tx,
        table,
        rows.map(({ row }) => renamed(row, names) as Record<string, unknown>),
      )
      await forget(LARGE_TABLES.includes(table) ? JSON.stringify(rows).length : 0)
      if (written > 0) counts[table] = (counts[table] ?? 0) + written
      const count = rows.length - written
      if (count > 0)
        leftOut.add({ table, reason: 'conflicts with an existing row', count, firstLine: rows[0]?.line ?? 0 })
    }
  }
  await insertImportedTexts(tx)
  return counts
}

/** The parent row of each table. A row without its parent is skipped. */
const PARENTS: Partial<Record<MovedTable, { table: MovedTable; column: string }>> = {
  Agent: { table: 'Entity', column: 'id' },
  AgentTool: { table: 'Agent', column: 'agentId' },
  McpServer: { table: 'Agent', column: 'agentId' },
  FormerMember: { table: 'Entity', column: 'entityId' },
  Membership: { table: 'Entity', column: 'entityId' },
  Step: { table: 'Run', column: 'runId' },
  Decision: { table: 'ToolCall', column: 'toolCallId' },
}

/**
 * Inserts rows with the same columns in one statement. Columns that are missing from an older export get their
 * defaults.
 */
async function insert(tx: Tx, table: MovedTable, rows: readonly Record<string, unknown>[]): Promise<number> {
  const { columns, fixed } = specOf(table)
  const known = [...Object.keys(columns), ...Object.keys(fixed)]
  const groups = Map.groupBy(rows, (row) => known.filter((name) => Object.hasOwn(row, name)).join(' '))
  const name = Prisma.raw(`"${table}"`)
  const parent = PARENTS[table]
  const hasParent =
    parent === undefined
      ? Prisma.sql`true`
      : Prisma.sql`EXISTS (SELECT 1 FROM ${Prisma.raw(`"${parent.table}"`)} p WHERE p.id = ${Prisma.raw(`r."${parent.column}"`)})`
  let written = 0
  for (const [key, some] of groups) {
    const list = Prisma.raw(
      key
        .split(' ')
        .map((column) => `"${column}"`)
        .join(', '),
    )
    written += await tx.$executeRaw`
      INSERT INTO ${name} (${list}) SELECT ${list} FROM jsonb_populate_recordset(NULL::${name}, ${jsonbText(some)}::jsonb) AS r
      WHERE ${hasParent} ON CONFLICT DO NOTHING`
  }
  return written
}

/** Returns the value with every id in `names` replaced by its new id. */
function renamed(value: unknown, names: ReadonlyMap<string, string>): unknown {
  if (names.size === 0) return value
  if (typeof value === 'string') return names.get(value) ?? value
  if (Array.isArray(value)) return value.map((one) => renamed(one, names))
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, renamed(inner, names)]))
}
