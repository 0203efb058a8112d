import { Prisma } from '../generated/prisma/client.ts'
import { oneLine } from '../lib/json.ts'
import type { Tx } from '../platform/db.ts'
import { TOLD_CALLS } from '../runs/tool-call-ends.ts'
import { ERASED, type ErasedHuman } from './erased-human.ts'
import { redactReasons } from './redacted-decisions.ts'

/** Of which rows the name is taken out next; null: of none any more. */
export interface Place {
  table: string
  /** All up to this id have been looked at. */
  after: string
}

interface Table {
  /** JSON, and texts, in which the server itself may have written the name. */
  columns: string[]
  texts?: string[]
  agent: string
  runs: string[]
  condition?: Prisma.Sql
}

const TABLES: Record<string, Table> = {
  Run: { columns: ['state'], agent: 'agentId', runs: ['id'] },
  Message: { columns: ['origin'], agent: 'senderId', runs: ['runId'] },
  InboxEvent: { columns: ['payload'], agent: 'agentId', runs: ['runId', 'parentRunId'] },
  Cycle: { columns: ['messages'], agent: 'agentId', runs: ['runId'] },
  ToolCall: {
    columns: ['output', 'state'],
    texts: ['error'],
    agent: 'agentId',
    runs: ['runId'],
    condition: TOLD_CALLS,
  },
}
const ROWS_AT_ONCE = 500

const DECISIONS_AT_ONCE = 20

export const FIRST_PLACE: Place = { table: 'Decision', after: '' }
const SECOND_PLACE: Place = { table: 'Run', after: '' }

/**
 * Takes the name out of what the server itself wrote it into, in a few rows: origins of messages, inbox events, what minds remember of
 * them, results of built-in tools and decisions; with `runIds`, only of what those runs have left. What agents and people wrote stays
 * theirs, and so do the records of steps. Doing it again does nothing. @returns where to go on
 */
export async function redactSome(
  tx: Tx,
  human: ErasedHuman,
  { table, after }: Place,
  runIds: string[] | null = null,
): Promise<Place | null> {
  if (table === 'Decision') {
    const isMore = human.messages && (await redactReasons(tx, human, DECISIONS_AT_ONCE)) === DECISIONS_AT_ONCE
    return isMore ? FIRST_PLACE : SECOND_PLACE
  }
  const { columns, texts = [], agent, runs, condition = Prisma.sql`true` } = TABLES[table] as Table
  const name = Prisma.raw(`"${table}"`)
  const { clean, names } = await cleaningOf(tx, human, Prisma.raw(`"${agent}"`))
  const json = columns.map((column) => Prisma.raw(`"${column}"`))
  const plain = texts.map((column) => Prisma.raw(`"${column}"`))
  const cleaned = [
    ...json.map((column) => ({ column, to: clean(Prisma.sql`${column}`) })),
    ...plain.map((column) => ({ column, to: Prisma.sql`${clean(Prisma.sql`to_jsonb(${column})`)}#>>'{}'` })),
  ]
  const sets = cleaned.map(({ column, to }) => Prisma.sql`${column} = ${to}`)
  const differ = cleaned.map(
    ({ column, to }) => Prisma.sql`(${names(Prisma.sql`${column}`)} AND ${to} IS DISTINCT FROM ${column})`,
  )
  const ofRuns = runs.map((column) => Prisma.sql`${Prisma.raw(`"${column}"`)} = ANY(${runIds}::text[])`)
  const [row] = await tx.$queryRaw<{ last: string | null; count: number }[]>`
    WITH few AS MATERIALIZED (
      SELECT id FROM ${name} WHERE id > ${after} AND ${runIds === null ? Prisma.sql`true` : Prisma.sql`(${Prisma.join(ofRuns, ' OR ')})`}
      ORDER BY id LIMIT ${ROWS_AT_ONCE}
    ), changed AS (
      UPDATE ${name} SET ${Prisma.join(sets)} WHERE id IN (SELECT id FROM few) AND ${condition} AND (${Prisma.join(differ, ' OR ')})
    ) SELECT max(id) AS last, count(*)::int AS count FROM few`
  if (row?.last != null) await redactTriggers(tx, human, { table, after, last: row.last })
  if (row?.last != null && row.count === ROWS_AT_ONCE) return { table, after: row.last }
  const tables = Object.keys(TABLES)
  const next = tables[tables.indexOf(table) + 1]
  return next === undefined ? null : { table: next, after: '' }
}

/** Of these rows `Name in "Space": "…"`, and what else they hold of the messages of the human. */
async function redactTriggers(
  tx: Tx,
  { id, name, messages }: ErasedHuman,
  { table, after, last }: Place & { last: string },
): Promise<void> {
  const called = `${oneLine(name)} in "`
  const among = (column: Prisma.Sql) => Prisma.sql`(${column} > ${after} AND ${column} <= ${last})`
  if (table === 'Run') {
    await tx.$executeRaw`
      UPDATE "Run" SET "triggerSummary" = ${`${ERASED} in "`} || substr("triggerSummary", length(${called}) + 1)
      WHERE "triggerSenderId" = ${id} AND starts_with("triggerSummary", ${called}) AND ${among(Prisma.sql`id`)}`
  }
  if (!messages) return
  if (table === 'Run') {
    await tx.$executeRaw`
      UPDATE "Message" m SET origin = jsonb_set(m.origin, '{triggerMessage}', 'null')
      FROM "Run" r WHERE r."triggerSenderId" = ${id} AND m."runId" = r.id AND m.origin->'triggerMessage' IS NOT NULL
        AND ${among(Prisma.sql`r.id`)}`
    await tx.$executeRaw`
      UPDATE "Run" SET "triggerSummary" = ${`${ERASED} in a space`}, "triggerPayload" = NULL
      WHERE "triggerSenderId" = ${id} AND "triggerType" = 'SPACE_MESSAGE' AND ${among(Prisma.sql`id`)}`
  }
  if (table !== 'InboxEvent') return
  await tx.$executeRaw`
    UPDATE "InboxEvent" SET payload = jsonb_set(payload - 'mention', '{content}', '""')
    WHERE payload->>'senderId' = ${id} AND ${among(Prisma.sql`id`)}`
}

/** The spaces that the human was ever in, of those that there are. */
const SPACES_OF = (humanId: string) => Prisma.sql`
  SELECT "spaceId" FROM "Membership" WHERE "entityId" = ${humanId} UNION SELECT "spaceId" FROM "FormerMember" WHERE "entityId" = ${humanId}`

/** What else than an id says who is meant by a name: whether somebody else has it too, and which agents know this one, from where. */
async function surroundingsOf(tx: Tx, { id, name }: ErasedHuman) {
  const namesakes = await tx.entity.count({ where: { kind: 'HUMAN', name, goneAt: null, id: { not: id } } })
  if (namesakes === 0) return null
  const spaces = await tx.$queryRaw<{ spaceId: string }[]>(SPACES_OF(id))
  const agents = await tx.$queryRaw<{ id: string }[]>`
    SELECT m."entityId" AS id FROM (
      SELECT "spaceId", "entityId" FROM "Membership" UNION SELECT "spaceId", "entityId" FROM "FormerMember"
    ) m WHERE m."spaceId" IN (${SPACES_OF(id)}) UNION SELECT "agentId" FROM "Run" WHERE "triggerSenderId" = ${id}`
  return { spaceIds: spaces.map(({ spaceId }) => spaceId), agentIds: agents.map(({ id: agentId }) => agentId) }
}

/**
 * How a name stands in JSON. Beside an id it is known whose it is. Where only the name says who is meant, it is this human's as long as
 * nobody else is called so; else in what comes from where it was, or from nowhere that there is any more. Of two in one space both
 * are called "Erased" there: better one name too many than one that stays.
 */
async function cleaningOf(tx: Tx, human: ErasedHuman, agent: Prisma.Sql) {
  const { id, name } = human
  const quoted = JSON.stringify(name).slice(1, -1)
  const inLine = JSON.stringify(oneLine(name)).slice(1, -1)
  // In quotes of its own, within a text.
  const inQuotes = JSON.stringify(JSON.stringify(oneLine(name))).slice(1, -1)
  const either = `(?:${[quoted, inLine].map(literally).join('|')})`
  const told = `(?:${[inLine, inQuotes].map(literally).join('|')})`
  const near = await surroundingsOf(tx, human)
  const places = near === null ? 'spc_[0-9a-f]+' : `(?:${['none', ...near.spaceIds].join('|')})`
  const byId: [string, string][] = [
    [`"sender": "${either}", "senderId": "${id}"`, `"sender": "${ERASED}", "senderId": "${id}"`],
    [`"entityId": "${id}", "entityName": "${either}"`, `"entityId": "${id}", "entityName": "${ERASED}"`],
    [`"id": "${id}", "name": "${either}"`, `"id": "${id}", "name": "${ERASED}"`],
    [`("senderId": "${id}".*?"senderName": )"${either}"`, `\\1"${ERASED}"`],
    [`${told} \\(id: ${id}\\)`, `${ERASED} (id: ${id})`],
    [`(\\(id: ${places}\\)\\] )${told} \\(human\\):`, `\\1${ERASED} (human):`],
  ]
  const byName: [string, string][] = [
    [`"(sender|triggerSenderName)": "${either}"(?!, "senderId")`, `"\\1": "${ERASED}"`],
    [`"${literally(inLine)} in \\\\"`, `"${ERASED} in \\\\"`],
    [`${literally(inQuotes)} \\(human\\)`, `\\\\"${ERASED}\\\\" (human)`],
    [`((?:by|,) )${literally(inQuotes)}`, `\\1\\\\"${ERASED}\\\\"`],
    [`${literally(inLine)} is a human:`, `${ERASED} is a human:`],
  ]
  const applied = (json: Prisma.Sql, forms: [string, string][]) =>
    forms.reduce((text, [from, to]) => Prisma.sql`regexp_replace(${text}, ${from}, ${to}, 'g')`, json)
  return {
    clean: (json: Prisma.Sql) => {
      const sure = applied(Prisma.sql`${json}::text`, byId)
      const all = applied(sure, byName)
      if (near === null) return Prisma.sql`${all}::jsonb`
      const isNear = Prisma.sql`${agent} = ANY(${near.agentIds}::text[]) AND (
        places = '{}' OR places && ${near.spaceIds}::text[] OR NOT places <@ ARRAY(
          SELECT s.id FROM "Space" s WHERE s.id = ANY(places) AND s."deletedAt" IS NULL))`
      return Prisma.sql`(CASE WHEN ${isNear} THEN ${all} ELSE ${sure} END)::jsonb`
    },
    names: (json: Prisma.Sql) => Prisma.sql`
      (strpos(${json}::text, ${quoted}) > 0 OR strpos(${json}::text, ${inLine}) > 0 OR strpos(${json}::text, ${inQuotes}) > 0)`,
  }
}

const literally = (text: string): string => text.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&')
