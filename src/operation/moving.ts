import { Prisma } from '../generated/prisma/client.ts'
import type { Database } from '../platform/db.ts'

/** The first line of an export says this, and what made it. */
export const FORMAT = 'parley-space'
export const FORMAT_VERSION = 1

/** A row as it stands in an export: its table, and its columns as PostgreSQL writes them in JSON. */
export interface MovedRow {
  table: MovedTable
  row: Record<string, unknown>
}

export type MovedTable = keyof typeof SOURCES

/** What secrets are encrypted with stays where it is. */
const SECRETS = ['headersSealed', 'headerNames', 'notifyUrl', 'notifySecretSealed']

const RUNS = (space: string) => Prisma.sql`SELECT id FROM "Run" WHERE "triggerSpaceId" = ${space}`
const MESSAGES = (space: string) => Prisma.sql`SELECT id FROM "Message" WHERE "spaceId" = ${space}`
const CALLS = (space: string) => Prisma.sql`
  SELECT id FROM "ToolCall" WHERE "runId" IN (${RUNS(space)}) OR "messageId" IN (${MESSAGES(space)})`
const PEOPLE = (space: string) => Prisma.sql`
  SELECT "entityId" AS id FROM "Membership" WHERE "spaceId" = ${space}
  UNION SELECT "entityId" FROM "FormerMember" WHERE "spaceId" = ${space}
  UNION SELECT "senderId" FROM "Message" WHERE "spaceId" = ${space}
  UNION SELECT "humanId" FROM "Decision" WHERE "toolCallId" IN (${CALLS(space)})`

/**
 * What is moved with a space, in the order in which it can be written: each table's rows, and the column by which they
 * are read on. Who is in it, or was, or wrote or decided in it; of agents what they are made of, not what they carry in their minds; its
 * messages, and the runs that it set off with their journals. Of other runs that wrote in it the calls that show there.
 */
export const SOURCES = {
  Entity: { key: 'id', where: (space: string) => Prisma.sql`t.id IN (${PEOPLE(space)})` },
  Agent: { key: 'id', where: (space: string) => Prisma.sql`t.id IN (${PEOPLE(space)})` },
  AgentTool: { key: 'name', where: (space: string) => Prisma.sql`t."agentId" IN (${PEOPLE(space)})` },
  McpServer: { key: 'name', where: (space: string) => Prisma.sql`t."agentId" IN (${PEOPLE(space)})` },
  Space: { key: 'id', where: (space: string) => Prisma.sql`t.id = ${space}` },
  FormerMember: { key: 'entityId', where: (space: string) => Prisma.sql`t."spaceId" = ${space}` },
  Chain: { key: 'id', where: (space: string) => Prisma.sql`t."spaceId" = ${space}` },
  Run: { key: 'id', where: (space: string) => Prisma.sql`t."triggerSpaceId" = ${space}` },
  RunSpace: {
    key: 'runId',
    where: (space: string) => Prisma.sql`t."spaceId" = ${space} AND t."runId" IN (${RUNS(space)})`,
  },
  Step: { key: 'id', where: (space: string) => Prisma.sql`t."runId" IN (${RUNS(space)})` },
  ToolCall: {
    key: 'id',
    where: (space: string) => Prisma.sql`t.id IN (${CALLS(space)})`,
  },
  Decision: { key: 'toolCallId', where: (space: string) => Prisma.sql`t."toolCallId" IN (${CALLS(space)})` },
  Message: { key: 'id', where: (space: string) => Prisma.sql`t."spaceId" = ${space}` },
  Outcome: { key: 'messageId', where: (space: string) => Prisma.sql`t."messageId" IN (${MESSAGES(space)})` },
  RootUsage: { key: 'rootId', where: (space: string) => Prisma.sql`t."rootId" IN (${MESSAGES(space)})` },
  Membership: { key: 'entityId', where: (space: string) => Prisma.sql`t."spaceId" = ${space}` },
} as const satisfies Record<string, { key: string; where(space: string): Prisma.Sql }>

const ROWS_AT_ONCE = 500

/**
 * A space as JSON lines: a heading, then rows in the order in which they can be written. What changes meanwhile is in it or is not:
 * stop writing to the space first where that matters. @throws Error with one readable line where there is no such space
 */
export async function* exportSpace({ prisma }: Database, spaceId: string): AsyncGenerator<string> {
  if ((await prisma.space.count({ where: { id: spaceId, deletedAt: null } })) === 0)
    throw new Error(`There is no space ${spaceId}.`)
  yield JSON.stringify({ format: FORMAT, version: FORMAT_VERSION, spaceId, at: new Date().toISOString() })
  for (const table of Object.keys(SOURCES) as MovedTable[])
    for await (const row of rowsOf({ prisma }, table, spaceId))
      yield JSON.stringify({ table, row: withoutSecrets(row) })
}

async function* rowsOf(
  { prisma }: Pick<Database, 'prisma'>,
  table: MovedTable,
  spaceId: string,
): AsyncGenerator<Record<string, unknown>> {
  const { key, where } = SOURCES[table]
  const [name, column] = [Prisma.raw(`"${table}"`), Prisma.raw(`t."${key}"`)]
  let after = ''
  for (;;) {
    // All with the last key of a page come with it: a key need not be unique.
    const rows = await prisma.$queryRaw<{ key: string; row: Record<string, unknown> }[]>`
      SELECT ${column} AS key, to_jsonb(t) AS row FROM ${name} t WHERE ${where(spaceId)} AND ${column} > ${after}
      ORDER BY ${column} FETCH FIRST ${ROWS_AT_ONCE} ROWS WITH TIES`
    for (const { row } of rows) yield row
    if (rows.length < ROWS_AT_ONCE) return
    after = rows.at(-1)?.key ?? ''
  }
}

/** Nor does the name of who is being erased go anywhere. */
function withoutSecrets(row: Record<string, unknown>): Record<string, unknown> {
  const isHuman = row['kind'] === 'HUMAN'
  return Object.fromEntries(
    Object.entries(row).filter(([name]) => !SECRETS.includes(name) && !(isHuman && name === 'formerly')),
  )
}
