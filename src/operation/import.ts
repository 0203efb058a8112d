import { Prisma } from '../generated/prisma/client.ts'
import { jsonbText } from '../lib/json.ts'
import type { Database, Tx } from '../platform/db.ts'
import { FORMAT, FORMAT_VERSION, type MovedRow, type MovedTable, SOURCES } from './moving.ts'
import { REMAINS } from './space-deletion.ts'

export interface Imported {
  spaceId: string
  /** Rows that were written, by table. */
  counts: Partial<Record<MovedTable, number>>
}

const ROWS_AT_ONCE = 200

/**
 * Writes a space from the lines of an export. Who is here already, by id or by `externalId`, is the one that is here; what else is
 * here stays as it is. What lived when it was exported is over: runs are CANCELED, GONE, messages that were being written INTERRUPTED.
 * The members come last: until then nobody but admins sees the space. One that broke off is removed with `deleteSpace`.
 * @throws Error with one readable line for lines that are no export, or a space that is here already
 */
export async function importSpace(db: Database, lines: AsyncIterable<string> | Iterable<string>): Promise<Imported> {
  const imported: Imported = { spaceId: '', counts: {} }
  const names = new Map<string, string>()
  let batch: MovedRow[] = []
  const flush = async () => {
    const [first] = batch
    if (first !== undefined) {
      const written = await db.transaction((tx) => write(tx, batch, names))
      imported.counts[first.table] = (imported.counts[first.table] ?? 0) + written
    }
    batch = []
  }
  for await (const line of lines) {
    // What npm says of the script that it runs may stand before it.
    if (!line.startsWith('{')) continue
    if (imported.spaceId === '') {
      imported.spaceId = await begin(db, line)
      continue
    }
    const moved = JSON.parse(renamed(line, names)) as MovedRow
    if (!(moved.table in SOURCES)) continue
    if (batch.length >= ROWS_AT_ONCE || (batch[0] !== undefined && batch[0].table !== moved.table)) await flush()
    // What was just written may have given somebody another id.
    batch.push(JSON.parse(renamed(line, names)) as MovedRow)
  }
  await flush()
  if (imported.spaceId === '') throw new Error('That is no export of a space: it has no heading.')
  return imported
}

async function begin({ prisma }: Database, line: string): Promise<string> {
  const heading = JSON.parse(line) as { format?: unknown; version?: unknown; spaceId?: unknown }
  if (heading.format !== FORMAT || typeof heading.spaceId !== 'string')
    throw new Error('That is no export of a space: it has no heading.')
  if (heading.version !== FORMAT_VERSION)
    throw new Error(`That is an export of version ${String(heading.version)}; this server reads ${FORMAT_VERSION}.`)
  if ((await prisma.space.count({ where: { id: heading.spaceId, NOT: REMAINS } })) > 0)
    throw new Error(`The space ${heading.spaceId} is here already: delete it first (deleteSpace).`)
  return heading.spaceId
}

/** Ids are long enough to be found in any text. */
function renamed(line: string, names: Map<string, string>): string {
  let text = line
  for (const [from, to] of names) text = text.replaceAll(from, to)
  return text
}

/** Rows of one table. @returns how many were not here yet */
async function write(tx: Tx, rows: MovedRow[], names: Map<string, string>): Promise<number> {
  const [{ table } = { table: 'Space' as MovedTable }] = rows
  if (table === 'Entity') await findThoseHere(tx, rows, names)
  // One that was deleted here comes back in the place of what stayed of it.
  if (table === 'Space')
    await tx.space.deleteMany({ where: { id: { in: rows.map(({ row }) => String(row['id'])) }, ...REMAINS } })
  const fresh = await skipped(
    tx,
    table,
    rows.map(({ row }) => ENDED[table]?.(row) ?? row),
  )
  if (fresh.length === 0) return 0
  const known = await columnsOf(tx, table)
  const columns = Object.keys(fresh[0] ?? {}).filter((name) => known.has(name))
  const list = Prisma.raw(columns.map((name) => `"${name}"`).join(', '))
  const name = Prisma.raw(`"${table}"`)
  return tx.$executeRaw`
    INSERT INTO ${name} (${list}) SELECT ${list} FROM jsonb_populate_recordset(NULL::${name}, ${jsonbText(fresh)}::jsonb)
    ON CONFLICT DO NOTHING`
}

/** Humans that sign in as somebody who is here are the one that is here. */
async function findThoseHere(tx: Tx, rows: MovedRow[], names: Map<string, string>): Promise<void> {
  const externalIds = rows.flatMap(({ row }) => (typeof row['externalId'] === 'string' ? [row['externalId']] : []))
  const here = await tx.entity.findMany({ where: { externalId: { in: externalIds } } })
  for (const { row } of rows) {
    const same = here.find(({ externalId }) => externalId === row['externalId'])
    if (same !== undefined && same.id !== row['id']) names.set(String(row['id']), same.id)
  }
}

/** Without what would belong to somebody who is here and is made of something else, or is no more. */
async function skipped(tx: Tx, table: MovedTable, rows: Record<string, unknown>[]): Promise<Record<string, unknown>[]> {
  if (table === 'Entity' || table === 'Agent') {
    const ids = rows.map(({ id }) => String(id))
    const found =
      table === 'Agent'
        ? await tx.agent.findMany({ where: { id: { in: ids } }, select: { id: true } })
        : await tx.entity.findMany({ where: { id: { in: ids } }, select: { id: true } })
    const here = new Set(found.map(({ id }) => id))
    // An agent whose entity was here and gone has no row to come back to.
    const gone = table === 'Agent' ? await goneOf(tx, ids) : new Set<string>()
    return rows.filter(({ id }) => !here.has(String(id)) && !gone.has(String(id)))
  }
  if (table === 'Membership') {
    const gone = await goneOf(
      tx,
      rows.map(({ entityId }) => String(entityId)),
    )
    return rows.filter(({ entityId }) => !gone.has(String(entityId)))
  }
  if (table !== 'AgentTool' && table !== 'McpServer') return rows
  const agents = await tx.agent.findMany({
    where: { id: { in: rows.map(({ agentId }) => String(agentId)) } },
    select: { id: true, tools: { select: { name: true } }, mcpServers: { select: { name: true } } },
  })
  const bare = new Set(
    agents.flatMap((agent) =>
      (table === 'AgentTool' ? agent.tools : agent.mcpServers).length === 0 ? [agent.id] : [],
    ),
  )
  return rows.filter(({ agentId }) => bare.has(String(agentId)))
}

async function goneOf(tx: Tx, ids: string[]): Promise<Set<string>> {
  const rows = await tx.entity.findMany({ where: { id: { in: ids }, goneAt: { not: null } }, select: { id: true } })
  return new Set(rows.map(({ id }) => id))
}

async function columnsOf(tx: Tx, table: string): Promise<Set<string>> {
  const rows = await tx.$queryRaw<{ name: string }[]>`
    SELECT column_name AS name FROM information_schema.columns WHERE table_schema = current_schema() AND table_name = ${table}`
  return new Set(rows.map(({ name }) => name))
}

const isAlive = (status: unknown, ended: string[]) => !ended.includes(String(status))

/** What lived is over. */
const ENDED: Partial<Record<MovedTable, (row: Record<string, unknown>) => Record<string, unknown>>> = {
  Run: (row) => ({
    ...row,
    ...{ claimableAt: null, leaseUntil: null, worker: null, deadlineAt: null, timeLeftMs: null },
    ...(isAlive(row['status'], ['COMPLETED', 'FAILED', 'CANCELED'])
      ? { status: 'CANCELED', stopReason: 'GONE', finishedAt: new Date().toISOString() }
      : {}),
  }),
  Chain: (row) => ({ ...row, holderId: null, holderRunId: null, replyStack: [] }),
  ToolCall: (row) =>
    isAlive(row['status'], ['DONE', 'FAILED', 'TIMED_OUT', 'CANCELED'])
      ? {
          ...row,
          ...{ status: 'CANCELED', settledAt: new Date().toISOString(), carryAt: null, escalatesAt: null },
          ...(row['approvalState'] === 'PENDING' ? { approvalState: 'CANCELED' } : {}),
        }
      : row,
  Message: (row) => (isAlive(row['status'], ['COMPLETE', 'INTERRUPTED']) ? { ...row, status: 'INTERRUPTED' } : row),
  RootUsage: (row) => ({ ...row, tellAt: null }),
}
