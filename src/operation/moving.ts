import { confidentialAmong } from '../confidentiality/marks.ts'
import { Prisma } from '../generated/prisma/client.ts'
import type { Database } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'
import { bytesOfFile } from './moved-files.ts'
import { type MovedTable, specOf } from './moved-tables.ts'

/** The name of the format. The first line of an export contains it together with the version. */
export const FORMAT = 'parley-space'
/** Version 1 had no last line, so an import could not detect that a file was truncated. */
export const FORMAT_VERSION = 2

/** A row of an export: its table, and its columns in the JSON form of PostgreSQL. */
export interface MovedRow {
  table: MovedTable
  row: Record<string, unknown>
}

/** The batch size for rows with journals and tool results, each of which can have several megabytes. */
const LARGE_ROWS_AT_ONCE = 20
const ROWS_AT_ONCE = 200

/** A row, and the other confidential spaces that are sources of the row according to its current marks. */
interface FoundRow {
  row: Record<string, unknown>
  foreign: string[]
}

const idOf = ({ row }: FoundRow) => String(row['id'])

/**
 * Yields a space as JSON lines: a heading, rows, and a last line with the number of rows. The rows contain the space's
 * current and former members, its senders and its deciders. They also contain the settings of agents (but not their
 * knowledge), the messages, and the runs that the space triggered, with their journals. For other runs that posted in
 * the space, they contain only the calls that members could see.
 *
 * The row of a file, with its bytes, follows the message that shows the file. If a run has content of another
 * confidential space, the export omits the run's journal, all its texts, and the calls that members could not see.
 * Concurrent changes may or may not be included. Holds one batch of rows in memory at a time.
 * @throws Error with a one-line message if the space does not exist; StorageUnavailableError
 */
export async function* exportSpace(
  { db, files }: { db: Pick<Database, 'prisma'>; files: Pick<Platform['files'], 'read'> },
  spaceId: string,
): AsyncGenerator<string> {
  const { prisma } = db
  if ((await prisma.space.count({ where: { id: spaceId, deletedAt: null } })) === 0)
    throw new Error(`There is no space ${spaceId}.`)
  yield JSON.stringify({ format: FORMAT, version: FORMAT_VERSION, spaceId, at: new Date().toISOString() })
  let rows = 0
  for await (const { table, row } of readMovedRows(db, spaceId, ofTriggers(spaceId))) {
    rows += 1
    yield JSON.stringify({ table, row })
    if (table === 'File')
      for await (const bytes of bytesOfFile(files, row as { id: string; hash: string })) yield JSON.stringify(bytes)
  }
  yield JSON.stringify({ end: true, rows })
}

/** Condition on a run `t`: the space triggered the run. */
const ofTriggers = (spaceId: string) => Prisma.sql`t."triggerSpaceId" = ${spaceId}`

/**
 * Yields the rows of a space in the form of an export, without secrets. `ofSpaceRuns` is a condition on the space's
 * runs `t`.
 */
export async function* readMovedRows(
  { prisma }: Pick<Database, 'prisma'>,
  spaceId: string,
  ofSpaceRuns: Prisma.Sql,
): AsyncGenerator<MovedRow> {
  for await (const { table, row } of rowsOf(prisma, spaceId, ofSpaceRuns))
    yield { table, row: withoutSecrets(table, row) }
}

async function* rowsOf(prisma: Database['prisma'], spaceId: string, ofSpaceRuns: Prisma.Sql): AsyncGenerator<MovedRow> {
  const ofSpace = Prisma.sql`t."spaceId" = ${spaceId}`
  const read = (table: MovedTable, where: Prisma.Sql, options?: PageOptions) =>
    pagesOf(prisma, { table, where, spaceId }, options)
  async function* plain(table: MovedTable, where: Prisma.Sql, options?: PageOptions): AsyncGenerator<MovedRow> {
    for await (const page of read(table, where, options)) for (const { row } of page) yield { table, row }
  }
  const people = await peopleOf(prisma, spaceId)
  const isOfPeople = (column: string) => Prisma.sql`t.${Prisma.raw(`"${column}"`)} = ANY(${people}::text[])`
  yield* plain('Entity', isOfPeople('id'))
  yield* plain('Agent', isOfPeople('id'))
  yield* plain('AgentTool', isOfPeople('agentId'), { key: 'agentId' })
  yield* plain('McpServer', isOfPeople('agentId'), { key: 'agentId' })
  yield* plain('Space', Prisma.sql`t.id = ${spaceId}`)
  yield* plain('FormerMember', ofSpace, { key: 'entityId' })
  yield* grants()
  for await (const page of read('Chain', ofSpace))
    for (const { row } of page) yield { table: 'Chain', row: { ...row, replyStack: [] } }

  // Instructions have no label, but they can list other spaces of the agent. So a separate rule applies to them.
  const hasOthers = (await prisma.space.count({ where: { confidential: true, id: { not: spaceId } } })) > 0
  const runs = read('Run', ofSpaceRuns, { most: LARGE_ROWS_AT_ONCE })
  for await (const page of runs) {
    const ids = page.map(idOf)
    const open = page.filter(({ foreign }) => foreign.length === 0).map(idOf)
    for (const found of page) yield { table: 'Run', row: exportedRun(found, spaceId) }
    yield* plain('RunSpace', Prisma.sql`${ofSpace} AND t."runId" = ANY(${ids}::text[])`, { key: 'runId' })
    const steps = read('Step', Prisma.sql`t."runId" = ANY(${open}::text[])`, { most: LARGE_ROWS_AT_ONCE })
    for await (const few of steps)
      for (const { row } of few)
        yield { table: 'Step', row: hasOthers ? { ...row, instructions: null, withheld: null } : row }
    const shows = Prisma.sql`EXISTS (SELECT 1 FROM "Message" m WHERE m.id = t."messageId" AND m."spaceId" = ${spaceId})`
    yield* calls(Prisma.sql`t."runId" = ANY(${ids}::text[]) AND (t."runId" = ANY(${open}::text[]) OR ${shows})`)
  }
  for await (const page of read('Message', ofSpace, { key: 'seq', first: -1 })) {
    const ids = page.map(idOf)
    for (const found of page) yield { table: 'Message', row: exportedMessage(found, spaceId) }
    const isOther = Prisma.sql`NOT EXISTS (SELECT 1 FROM (SELECT r.* FROM "Run" r WHERE r.id = t."runId") t WHERE ${ofSpaceRuns})`
    yield* calls(Prisma.sql`t."messageId" = ANY(${ids}::text[]) AND ${isOther}`)
    for (const row of await outcomesOf(prisma, ids, spaceId)) yield { table: 'Outcome', row }
    const ofMessages = Prisma.sql`t."messageId" = ANY(${ids}::text[])`
    yield* plain('File', ofMessages)
    yield* plain('MessageVersion', ofMessages, { key: 'messageId' })
    yield* plain('MessageReaction', ofMessages, { key: 'messageId' })
    yield* plain('RootUsage', Prisma.sql`t."rootId" = ANY(${ids}::text[])`, { key: 'rootId' })
  }
  yield* plain('ThreadReader', ofSpace, { key: 'humanId' })
  yield* plain('ThreadTurn', ofSpace, { key: 'threadRootId' })
  yield* plain('Membership', ofSpace, { key: 'entityId' })

  async function* grants(): AsyncGenerator<MovedRow> {
    for await (const page of read('StandingGrant', ofSpace)) {
      // The limits of the remaining grants could contain text from another confidential space.
      const open = page.filter(({ foreign }) => foreign.length === 0)
      for (const { row } of open) yield { table: 'StandingGrant', row }
      yield* plain('GrantDecision', Prisma.sql`t."grantId" = ANY(${open.map(idOf)}::text[])`, { key: 'grantId' })
    }
  }

  async function* calls(where: Prisma.Sql): AsyncGenerator<MovedRow> {
    for await (const page of read('ToolCall', where, { most: LARGE_ROWS_AT_ONCE })) {
      const shown: string[] = []
      for (const found of page) {
        const row = exportedCall(found, spaceId)
        if (row === null) continue
        shown.push(idOf(found))
        yield { table: 'ToolCall', row }
      }
      yield* plain('Decision', Prisma.sql`t."toolCallId" = ANY(${shown}::text[])`, { key: 'toolCallId' })
    }
  }
}

interface PageOptions {
  /** The column that orders the pages. Its values need not be unique. */
  key?: string
  /** A value that sorts before every value of the key. */
  first?: string | number
  most?: number
}

/** SQL for the marks of a row, by table. */
const MARKS: Partial<Record<MovedTable, Prisma.Sql>> = {
  Run: Prisma.sql`t.places || t.label`,
  ToolCall: Prisma.sql`t.places || t.label`,
  Message: Prisma.sql`t.places || t.label`,
  Step: Prisma.sql`t.label`,
  Chain: Prisma.sql`t.label`,
  StandingGrant: Prisma.sql`t.places || t.label`,
}

/** Yields pages of rows, each with its current label. The label omits spaces that are no longer confidential. */
async function* pagesOf(
  prisma: Database['prisma'],
  { table, where, spaceId }: { table: MovedTable; where: Prisma.Sql; spaceId: string },
  { key = 'id', first = '', most = ROWS_AT_ONCE }: PageOptions = {},
): AsyncGenerator<FoundRow[]> {
  const [name, column] = [Prisma.raw(`"${table}"`), Prisma.raw(`t."${key}"`)]
  const marks = MARKS[table]
  const label = marks === undefined ? Prisma.sql`'{}'::text[]` : confidentialAmong(marks)
  let after = first
  for (;;) {
    // A page includes all rows with its last key.
    const rows = await prisma.$queryRaw<{ key: string | number; row: Record<string, unknown>; label: string[] }[]>`
      SELECT ${column} AS key, to_jsonb(t) AS row, ${label} AS label FROM ${name} t WHERE ${where} AND ${column} > ${after}
      ORDER BY ${column} FETCH FIRST ${most} ROWS WITH TIES`
    if (rows.length > 0)
      yield rows.map(({ row, label: marked }) => ({
        row: marks === undefined ? row : { ...row, label: marked },
        foreign: marked.filter((id) => id !== spaceId),
      }))
    if (rows.length < most) return
    after = rows.at(-1)?.key ?? after
  }
}

/** Returns the ids of members, former members, senders and deciders, and of agents with runs, calls or grants. */
async function peopleOf(prisma: Database['prisma'], spaceId: string): Promise<string[]> {
  const rows = await prisma.$queryRaw<{ id: string | null }[]>`
    SELECT "entityId" AS id FROM "Membership" WHERE "spaceId" = ${spaceId}
    UNION SELECT "entityId" FROM "FormerMember" WHERE "spaceId" = ${spaceId}
    UNION SELECT "senderId" FROM "Message" WHERE "spaceId" = ${spaceId}
    UNION SELECT x."entityId" FROM "MessageReaction" x JOIN "Message" m ON m.id = x."messageId" WHERE m."spaceId" = ${spaceId}
    UNION SELECT "agentId" FROM "Run" WHERE "triggerSpaceId" = ${spaceId}
    UNION SELECT unnest(ARRAY["agentId", "proposedById", "revokedById"]) FROM "StandingGrant" WHERE "spaceId" = ${spaceId}
    UNION SELECT d."humanId" FROM "GrantDecision" d JOIN "StandingGrant" g ON g.id = d."grantId" WHERE g."spaceId" = ${spaceId}
    UNION SELECT d."humanId" FROM "Decision" d JOIN "ToolCall" c ON c.id = d."toolCallId" WHERE
      EXISTS (SELECT 1 FROM "Run" r WHERE r.id = c."runId" AND r."triggerSpaceId" = ${spaceId})
      OR EXISTS (SELECT 1 FROM "Message" m WHERE m.id = c."messageId" AND m."spaceId" = ${spaceId})`
  return rows.flatMap(({ id }) => id ?? [])
}

/** Removes references to other spaces, and all content of a run that has content from another confidential space. */
function exportedRun({ row, foreign }: FoundRow, spaceId: string): Record<string, unknown> {
  const here = (id: unknown) => (id === spaceId ? id : null)
  const named = { ...row, deepestSpaceId: here(row['deepestSpaceId']), activeSpaceId: here(row['activeSpaceId']) }
  if (foreign.length === 0) return named
  const summary = row['triggerType'] === 'SPACE_MESSAGE' ? row['triggerSummary'] : LEFT_OUT
  const isFailed = row['error'] !== null
  return {
    ...named,
    triggerSummary: summary,
    triggerName: null,
    triggerPayload: null,
    summary: null,
    error: isFailed ? LEFT_OUT : null,
    wokenBy: null,
    state: {},
  }
}

const LEFT_OUT = 'Omitted from the export: the content may come from another confidential space.'

/** Removes the origin of the message if the origin is in another space. */
function exportedMessage({ row, foreign }: FoundRow, spaceId: string): Record<string, unknown> {
  const origin = row['origin'] as Record<string, unknown> | null
  if (origin === null || (origin['triggerSpaceId'] === spaceId && foreign.length === 0)) return row
  const { triggerType } = origin
  const triggerName = foreign.length === 0 ? (origin['triggerName'] ?? null) : null
  const unknown = { triggerSpaceId: null, triggerSpaceName: null, triggerSenderName: null, triggerMessage: null }
  return { ...row, origin: { triggerType, triggerName, ...unknown } }
}

/**
 * Returns the parts of a call that members of the space could see, if the call has content of another confidential
 * space; null if they could see none.
 */
function exportedCall({ row, foreign }: FoundRow, spaceId: string): Record<string, unknown> | null {
  const named = row['spaceId'] === spaceId ? row : { ...row, spaceId: null }
  if (foreign.length === 0) return named
  const isShown = row['messageId'] !== null && row['spaceId'] === spaceId
  if (!isShown) return null
  const { hidesOutput = false } = (row['approval'] ?? {}) as { hidesOutput?: boolean }
  const seen = { ...named, state: null }
  return hidesOutput ? { ...seen, output: null, outputKeyOrders: null, error: null } : seen
}

/** Removes reasons and errors of runs that have content of another confidential space, or whose marks are unknown. */
async function outcomesOf(
  prisma: Database['prisma'],
  messageIds: string[],
  spaceId: string,
): Promise<Record<string, unknown>[]> {
  const rows = await prisma.$queryRaw<{ row: Record<string, unknown>; isKnown: boolean; label: string[] }[]>`
    SELECT to_jsonb(t) AS row, r.id IS NOT NULL AS "isKnown", ${confidentialAmong(Prisma.sql`r.places || r.label`)} AS label
    FROM "Outcome" t LEFT JOIN "Run" r ON r.id = t."runId" WHERE t."messageId" = ANY(${messageIds}::text[])
    ORDER BY t."messageId", t."agentId"`
  return rows.map(({ row, isKnown, label }) => {
    const mayBeForeign = isKnown ? label.some((id) => id !== spaceId) : WORDS_OF_AGENTS.includes(String(row['kind']))
    return mayBeForeign ? { ...row, reason: null, error: null } : row
  })
}

/** The kinds of outcomes whose reason an agent or a model provider wrote. */
const WORDS_OF_AGENTS = ['SKIPPED', 'FAILED']

/** Removes secrets, and the former name of a human who is being erased. */
function withoutSecrets(table: MovedTable, row: Record<string, unknown>): Record<string, unknown> {
  const { secret, fixed } = specOf(table)
  const isHuman = row['kind'] === 'HUMAN'
  return Object.fromEntries(
    Object.entries(row).filter(
      ([name]) => !secret.includes(name) && !(name in fixed) && !(isHuman && name === 'formerly'),
    ),
  )
}
