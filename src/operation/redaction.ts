import { Prisma } from '../generated/prisma/client.ts'
import type { Json } from '../lib/json.ts'
import { oneLine } from '../lib/json.ts'
import type { Database, Tx } from '../platform/db.ts'
import { NAMES_PEOPLE_SQL } from '../stores/call-store.ts'
import { clearReasons } from '../stores/decision-store.ts'
import { ERASED, type ErasedHuman, holds } from './erased-human.ts'
import { createNameRedaction, type Edit, type NameRedaction } from './name-redaction.ts'
import { isNear, type Near, surroundingsOf } from './namesakes.ts'

/** The position from which the redaction continues. */
export interface Place {
  table: string
  /** The id of the last row that has been processed. */
  after: string
}

/** A row from which the name could not be removed, with the reason. */
export interface FailedRow {
  table: string
  id: string
  error: unknown
}

/** The result of redacting a batch of rows. */
export interface Redacted {
  /** The position of the next batch; null if no rows are left. */
  next: Place | null
  failed: FailedRow[]
}

/** A row before the change. Contains the columns of its table, and other values that were read with them. */
type Row = Record<string, Json>

/** A change to a row: new values of columns, and edits to strings in JSON columns. */
interface Change {
  set?: Record<string, string | null>
  clear?: string[]
  edit?: Record<string, Edit[]>
}

interface Table {
  /** The columns to read. */
  columns: string[]
  /** The columns in which the server could have written the name. */
  named: string[]
  agent: string
  runs: string[]
  condition?: Prisma.Sql
  /** Returns a condition that selects further rows about the human. */
  about?(human: ErasedHuman): Prisma.Sql
  change(row: Row, names: NameRedaction, human: ErasedHuman): Change
}

const ROWS_AT_ONCE = 500
/** The maximum number of edits in one statement, because each `jsonb_set` copies the whole value. */
const EDITS_AT_ONCE = 50

const TABLES: Record<string, Table> = {
  Run: {
    columns: ['state', 'triggerSummary', 'triggerPayload', 'triggerSenderId', 'triggerType'],
    named: ['state'],
    agent: 'agentId',
    runs: ['id'],
    about: ({ id }) => Prisma.sql`t."triggerSenderId" = ${id}`,
    change(row, names, human): Change {
      const edit = { state: names.cycleState(row['state']) }
      if (row['triggerSenderId'] !== human.id) return { edit }
      const summary = String(row['triggerSummary'])
      if (human.messages && row['triggerType'] === 'SPACE_MESSAGE') {
        const emptied = `${ERASED} in a space`
        return {
          edit,
          set: summary === emptied ? {} : { triggerSummary: emptied },
          clear: row['triggerPayload'] === null ? [] : ['triggerPayload'],
        }
      }
      const start = `${oneLine(human.name)} in "`
      const isNamed = summary.startsWith(start)
      return { edit, set: isNamed ? { triggerSummary: `${ERASED} in "${summary.slice(start.length)}` } : {} }
    },
  },
  Message: {
    columns: ['origin'],
    named: ['origin'],
    agent: 'senderId',
    runs: ['runId'],
    // The run was triggered by a message of the human.
    about: ({ id, messages }) => Prisma.sql`(${messages} AND t.origin->>'triggerMessage' IS NOT NULL AND EXISTS (
      SELECT 1 FROM "Run" r WHERE r.id = t."runId" AND r."triggerSenderId" = ${id}))`,
    change: (row, names, human) => ({
      edit: { origin: names.origin(row['origin']) },
      clear: human.messages && row['isAbout'] === true ? ['origin.triggerMessage'] : [],
    }),
  },
  InboxEvent: {
    columns: ['payload'],
    named: ['payload'],
    agent: 'agentId',
    runs: ['runId', 'parentRunId'],
    about: ({ id, messages }) => Prisma.sql`(${messages} AND t.payload->>'senderId' = ${id}
      AND (t.payload->>'content' <> '' OR t.payload ? 'mention'))`,
    change(row, names, human): Change {
      const edits = names.payload(row['payload'])
      if (row['isAbout'] !== true || !human.messages) return { edit: { payload: edits } }
      const kept = edits.filter(({ path }) => path[0] !== 'mention')
      return { edit: { payload: [...kept, { path: ['content'], text: '' }] }, clear: ['payload.mention'] }
    },
  },
  Cycle: {
    columns: ['messages'],
    named: ['messages'],
    agent: 'agentId',
    runs: ['runId'],
    change: (row, names) => ({ edit: { messages: names.modelMessages(row['messages']) } }),
  },
  ToolCall: {
    columns: ['toolName', 'output', 'state', 'error'],
    named: ['output', 'state', 'error'],
    agent: 'agentId',
    runs: ['runId'],
    condition: NAMES_PEOPLE_SQL,
    change(row, names): Change {
      const error = row['error']
      const told = typeof error === 'string' ? names.toolError(error) : null
      return {
        edit: {
          output: names.toolOutput(String(row['toolName']), row['output']),
          state: names.toolState(row['state']),
        },
        set: told === error ? {} : { error: told },
      }
    },
  },
}

/** Decisions are processed last, because their reasons are needed to recognize the same text in other rows. */
const DECISIONS = 'Decision'

export const FIRST_PLACE: Place = { table: 'Run', after: '' }
const PLACES = [...Object.keys(TABLES), DECISIONS]

/**
 * Removes the name from text that the server wrote in a batch of rows. Each row is changed in its own transaction. The
 * rows are origins of messages, inbox events, cycles of the consciousness, results of built-in tools, and decisions.
 * With `runIds`, only rows of those runs are changed. Text by agents and people, and journaled steps, are not changed.
 * Rows that fail are reported and skipped. A second call for the same rows changes nothing.
 */
export async function redactSome(
  db: Database,
  human: ErasedHuman,
  { table, after }: Place,
  runIds: string[] | null = null,
): Promise<Redacted> {
  // An earlier version stored positions in another form. The pass then starts again.
  if (!PLACES.includes(table)) return { next: FIRST_PLACE, failed: [] }
  const page =
    table === DECISIONS ? await forgetReasons(db, human, after) : await redactTable(db, human, { table, after }, runIds)
  const next = PLACES[PLACES.indexOf(table) + 1]
  if (page.last !== null) return { next: { table, after: page.last }, failed: page.failed }
  return { next: next === undefined ? null : { table: next, after: '' }, failed: page.failed }
}

interface Page {
  /** The id of the last checked row; null if no rows follow. */
  last: string | null
  failed: FailedRow[]
}

async function redactTable(
  db: Database,
  human: ErasedHuman,
  { table, after }: Place,
  runIds: string[] | null,
): Promise<Page> {
  const near = await surroundingsOf(db.prisma, human)
  const { ids, last, failed } = await findNamed(db, human, { table, after, runIds })
  for (const id of ids) {
    try {
      await db.transaction((tx) => redactRow(tx, human, { table, id, near }))
    } catch (error) {
      failed.push({ table, id, error })
    }
  }
  return { last, failed }
}

interface Search {
  table: string
  after: string
  runIds: string[] | null
}

/**
 * Returns the rows of the next page that could contain the name. If the page cannot be read, reads its rows one by one.
 */
async function findNamed(
  { prisma }: Database,
  human: ErasedHuman,
  { table, after, runIds }: Search,
): Promise<Page & { ids: string[] }> {
  const { named, runs, condition = Prisma.sql`true`, about } = TABLES[table] as Table
  const name = Prisma.raw(`"${table}"`)
  const ofRuns = runs.map((column) => Prisma.sql`${Prisma.raw(`"${column}"`)} = ANY(${runIds}::text[])`)
  const few = Prisma.sql`SELECT id FROM ${name} WHERE id > ${after}
    AND ${runIds === null ? Prisma.sql`true` : Prisma.sql`(${Prisma.join(ofRuns, ' OR ')})`} ORDER BY id LIMIT ${ROWS_AT_ONCE}`
  const mayName = Prisma.join(
    [...named.map((column) => holds(human, Prisma.raw(`t."${column}"`))), ...(about ? [about(human)] : [])],
    ' OR ',
  )
  const found = (ids: Prisma.Sql) => prisma.$queryRaw<{ id: string }[]>`
    SELECT t.id FROM ${name} t WHERE t.id IN (${ids}) AND ${condition} AND (${mayName}) ORDER BY t.id`
  const all = (await prisma.$queryRaw<{ id: string }[]>(few)).map(({ id }) => id)
  const last = all.length === ROWS_AT_ONCE ? (all.at(-1) ?? null) : null
  try {
    const rows = await found(Prisma.sql`SELECT unnest(${all}::text[])`)
    return { ids: rows.map(({ id }) => id), last, failed: [] }
  } catch {
    const failed: FailedRow[] = []
    const ids: string[] = []
    for (const id of all) {
      try {
        ids.push(...(await found(Prisma.sql`${id}`)).map((row) => row.id))
      } catch (error) {
        failed.push({ table, id, error })
      }
    }
    return { ids, last, failed }
  }
}

async function redactRow(
  tx: Tx,
  human: ErasedHuman,
  { table, id, near }: { table: string; id: string; near: Near | null },
): Promise<void> {
  const { columns, agent, about, change, runs } = TABLES[table] as Table
  const name = Prisma.raw(`"${table}"`)
  const list = Prisma.join(columns.map((column) => Prisma.raw(`t."${column}"`)))
  const [row] = await tx.$queryRaw<Row[]>`
    SELECT ${list}, ${about ? about(human) : Prisma.sql`false`} AS "isAbout",
      ${near === null ? Prisma.sql`true` : isNear(near, { table, agent, runs })} AS "isByName"
    FROM ${name} t WHERE t.id = ${id} FOR UPDATE OF t`
  if (row === undefined) return
  const isHere = (spaceId: string) => near === null || near.spaceIds.includes(spaceId)
  const names = createNameRedaction(human, { isByName: row['isByName'] === true, isHere })
  for (const sets of statementsOf(change(row, names, human)))
    await tx.$executeRaw`UPDATE ${name} SET ${Prisma.join(sets)} WHERE id = ${id}`
}

/**
 * Returns the SET clauses of the statements for a change. They replace only the given strings. The rest of the JSON
 * value stays exactly as stored.
 */
function statementsOf({ set = {}, clear = [], edit = {} }: Change): Prisma.Sql[][] {
  const column = (name: string) => Prisma.raw(`"${name}"`)
  const plain = [
    ...Object.entries(set).map(([name, value]) => Prisma.sql`${column(name)} = ${value}`),
    ...clear.map((place) => {
      const [name = '', key] = place.split('.')
      if (key === undefined) return Prisma.sql`${column(name)} = NULL`
      return key === 'mention'
        ? Prisma.sql`${column(name)} = ${column(name)} - ${key}`
        : Prisma.sql`${column(name)} = jsonb_set(${column(name)}, ARRAY[${key}], 'null')`
    }),
  ].map((one) => [one])
  const edited = Object.entries(edit).flatMap(([name, edits]) =>
    chunks(edits, EDITS_AT_ONCE).map((some) => {
      const value = some.reduce(
        (json, { path, text }) => Prisma.sql`jsonb_set(${json}, ${path}::text[], to_jsonb(${text}::text))`,
        Prisma.sql`${column(name)}`,
      )
      return [Prisma.sql`${column(name)} = ${value}`]
    }),
  )
  return [...plain, ...edited]
}

function chunks<T>(items: readonly T[], size: number): T[][] {
  return Array.from({ length: Math.ceil(items.length / size) }, (_, index) =>
    items.slice(index * size, (index + 1) * size),
  )
}

/** Removes the reasons from a batch of the human's decisions. */
async function forgetReasons(db: Database, human: ErasedHuman, after: string): Promise<Page> {
  if (!human.messages) return { last: null, failed: [] }
  const calls = await db.prisma.$queryRaw<{ id: string }[]>`
    SELECT DISTINCT "toolCallId" AS id FROM "Decision" WHERE "humanId" = ${human.id} AND reason IS NOT NULL AND "toolCallId" > ${after}
    ORDER BY 1 LIMIT ${ROWS_AT_ONCE}`
  const failed: FailedRow[] = []
  for (const { id } of calls) {
    try {
      await clearReasons(db.prisma, { humanId: human.id, toolCallId: id })
    } catch (error) {
      failed.push({ table: DECISIONS, id, error })
    }
  }
  return { last: calls.length === ROWS_AT_ONCE ? (calls.at(-1)?.id ?? null) : null, failed }
}
