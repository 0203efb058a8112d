import { Prisma } from '../generated/prisma/client.ts'
import { jsonbText, oneLine } from '../lib/json.ts'
import type { Database, Tx } from '../platform/db.ts'
import { MOST_MEMBERS } from '../spaces/members.ts'
import { type LeftOutList, NO_EXPORT, readAll } from './import-reading.ts'
import { createForgetting, type LeftOut, missingLabels, settle, stagedRows } from './import-staging.ts'
import { MOVED_TABLES, type MovedTable, specOf } from './moved-tables.ts'
import { REMAINS } from './space-deletion.ts'

export interface ImportOptions {
  /** Reads and checks everything, writes nothing. */
  dryRun?: boolean
  /**
   * Takes the file's word for who people are outside: a human with the `externalId` of somebody here is that one, and others get theirs.
   * Without it, such a human refuses the import, and nobody gets an `externalId`.
   */
  trustExternalIds?: boolean
}

/** What an import did, or would do. */
export interface Imported {
  spaceId: string
  /** Agents that it creates, with every address that their tools reach. */
  agents: NewAgent[]
  /** Who is here already and is named by it: as member, sender or decider. */
  here: { id: string; name: string }[]
  /** Rows that were written, by table. */
  counts: Partial<Record<MovedTable, number>>
  leftOut: LeftOut[]
}

export interface NewAgent {
  id: string
  name: string
  tools: { name: string; execution: string; url: string | null; mayReceiveConfidential: boolean }[]
  mcpServers: { name: string; url: string; mayReceiveConfidential: boolean }[]
}

const ROWS_AT_ONCE = 200
const LARGE_ROWS_AT_ONCE = 20
const LARGE_TABLES: MovedTable[] = ['Run', 'Step', 'ToolCall']
const MOST_PEOPLE = 10_000
const MOST_LABELS = 1000
const LONGEST_IMPORT_MS = 12 * 3_600_000
const IMPORT_LOCK = 7_275_541

/**
 * Writes a space from the lines of an export, in one transaction: an import that is refused or interrupted changes nothing, and can be
 * repeated. It writes rows of the heading's space, and what the file itself brings; who is here already stays as they are. What was active when
 * it was exported is over: runs are CANCELED, GONE, messages that were being written INTERRUPTED. A confidential space that labels name and
 * that is not here leaves a nameless row, as a deleted one does, so that the labels go on counting. Memory is bounded by some rows.
 * @throws Error with one readable line for lines that are no export, or a space that is here already
 */
export async function importSpace(
  db: Pick<Database, 'prisma'>,
  lines: AsyncIterable<string> | Iterable<string>,
  { dryRun = false, trustExternalIds = false }: ImportOptions = {},
): Promise<Imported> {
  let imported: Imported | undefined
  const work = async (tx: Tx) => {
    // Lines may come slowly, and statements over all of them may take long.
    await tx.$executeRaw`SET LOCAL idle_in_transaction_session_timeout = 0`
    await tx.$executeRaw`SET LOCAL statement_timeout = 0`
    await tx.$queryRaw`SELECT 1 FROM (SELECT pg_advisory_xact_lock(${IMPORT_LOCK})) locked`
    const { spaceId, leftOut } = await readAll(tx, lines)
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

/** Rolls the transaction back. */
class DryRunOver extends Error {}

interface People {
  /** Ids of the file by those that stand for them here. */
  names: ReadonlyMap<string, string>
  withoutExternalId: LeftOut | null
}

/** Who people are that sign in elsewhere. @throws Error where one is somebody here, and the file is not trusted with that */
async function findPeople(tx: Tx, trustExternalIds: boolean): Promise<People> {
  const same = await tx.$queryRaw<{ from: string; to: string; name: string }[]>`
    SELECT t.key AS from, h.id AS to, t.row->>'name' AS name FROM "ImportedRow" t
    JOIN "Entity" h ON h."externalId" = t.row->>'externalId'
    WHERE t."table" = 'Entity' AND t.key <> h.id AND NOT EXISTS (SELECT 1 FROM "Entity" e WHERE e.id = t.key)
    ORDER BY t.line`
  const [first] = same
  if (trustExternalIds) {
    // They are here, by another id.
    await tx.$executeRaw`
      UPDATE "ImportedRow" t SET row = t.row || '{"externalId": null}' WHERE t."table" = 'Entity' AND EXISTS (
        SELECT 1 FROM "ImportedRow" b WHERE b."table" = 'Entity' AND b.row->>'externalId' = t.row->>'externalId' AND b.line < t.line)`
    for (const { from } of same)
      await tx.$executeRaw`UPDATE "ImportedRow" SET row = row || '{"externalId": null}' WHERE "table" = 'Entity' AND key = ${from}`
    return { names: new Map(same.map(({ from, to }) => [from, to])), withoutExternalId: null }
  }
  if (first !== undefined)
    throw new Error(
      `${JSON.stringify(oneLine(first.name))} (${first.from}) has the externalId of ${first.to}, who is here: if you trust the file, import it with --trust-external-ids, and they are the same.`,
    )
  const [cleared] = await tx.$queryRaw<{ count: number; firstLine: number }[]>`
    WITH cleared AS (
      UPDATE "ImportedRow" t SET row = t.row || '{"externalId": null}' WHERE t."table" = 'Entity' AND t.row->>'externalId' IS NOT NULL
        AND NOT EXISTS (SELECT 1 FROM "Entity" e WHERE e.id = t.key) RETURNING line
    ) SELECT count(*)::int AS count, coalesce(min(line), 0)::int AS "firstLine" FROM cleared`
  const reason = 'nobody gets one without --trust-external-ids; set it with updateHuman'
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
      `The file has no usable row of its space ${spaceId}: it is damaged or not whole. Export the space again.`,
    )
  if ((counts.Entity ?? 0) > MOST_PEOPLE)
    throw new Error(`The file brings ${counts.Entity} people and agents; ${MOST_PEOPLE} are the most.`)
  if ((counts.Membership ?? 0) > MOST_MEMBERS)
    throw new Error(`The file brings ${counts.Membership} members; a space has at most ${MOST_MEMBERS}.`)
  const labels = await missingLabels(tx, spaceId)
  if (labels.length > MOST_LABELS)
    throw new Error(
      `The labels of the file name ${labels.length} spaces that are not here; ${MOST_LABELS} are the most.`,
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
    .map(({ key: id }) => ({
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
    }))
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
  // One that was deleted here comes back in the place of what stayed of it.
  await tx.space.deleteMany({ where: { id: spaceId, ...REMAINS } })
  const forget = createForgetting(tx)
  const deletedAt = new Date()
  await tx.space.createMany({
    data: missing.map((id) => ({ id, name: '', routing: 'BROADCAST' as const, confidential: true, deletedAt })),
  })
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
        leftOut.add({ table, reason: 'collides with a row that is here', count, firstLine: rows[0]?.line ?? 0 })
    }
  }
  return counts
}

/** Rows that exist only with another one: where that collided, they are left out with it. */
const PARENTS: Partial<Record<MovedTable, { table: MovedTable; column: string }>> = {
  Agent: { table: 'Entity', column: 'id' },
  AgentTool: { table: 'Agent', column: 'agentId' },
  McpServer: { table: 'Agent', column: 'agentId' },
  FormerMember: { table: 'Entity', column: 'entityId' },
  Membership: { table: 'Entity', column: 'entityId' },
  Step: { table: 'Run', column: 'runId' },
  Decision: { table: 'ToolCall', column: 'toolCallId' },
}

/** Rows that have the same columns go together: one of an older export leaves to the table what it does not know. */
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

/** The value with every text that is one of these ids replaced: whole texts only, never a part of one. */
function renamed(value: unknown, names: ReadonlyMap<string, string>): unknown {
  if (names.size === 0) return value
  if (typeof value === 'string') return names.get(value) ?? value
  if (Array.isArray(value)) return value.map((one) => renamed(one, names))
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, renamed(inner, names)]))
}
