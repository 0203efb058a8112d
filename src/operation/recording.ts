import { createHash } from 'node:crypto'
import { confidentialAmong } from '../confidentiality/marks.ts'
import type { Config } from '../config.ts'
import { Prisma } from '../generated/prisma/client.ts'
import type { Database } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'
import { bytesOfFile } from './moved-files.ts'
import { readMovedRows } from './moving.ts'

/** The name of the format, which the first line of a recording contains together with the version. */
export const RECORDING_FORMAT = 'parley-recording'
export const RECORDING_VERSION = 1

/** The first line of a recording. */
export interface RecordingHeading {
  format: typeof RECORDING_FORMAT
  version: number
  /** The release of Parley that made the recording. */
  release: string
  spaceId: string
  /** When it was made, by this process's clock. */
  at: string
  limits: RecordedLimits
  /** Whether steps lack their instructions, because other spaces of the server are confidential. */
  hasOtherConfidential: boolean
  /** USD per million tokens, of the models that the recorded agents use. */
  prices: Record<string, { input: number; cachedInput: number; output: number }>
}

/** The settings on which the course of a space depends. */
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
 * The tables of a recording besides the rows of an export: versions and notes of the agents, plans and their firings, events
 * of inboxes, changes by people, and, as `RunVersion`, the version of its agent with which a run began.
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

interface RecordOptions {
  release: string
  limits: Config['limits']
  prices: Config['prices']
}

/** Changes that people make without leaving another row that says when. */
const RECORDED_ACTIONS = ['addMember', 'removeMember', 'leaveSpace', 'updateSpace', 'stopRun']
const ROWS_AT_ONCE = 200

/**
 * Yields a recording of a space as JSON lines: a heading, the rows of an export with the runs that plans, services and inboxes
 * started for this space only, the tables of RECORDED_TABLES, and a last line with the number of lines and their checksum.
 * Like an export it contains no secrets, addresses or external ids, and nothing of other confidential spaces.
 * @throws Error with one readable line if the space does not exist; StorageUnavailableError
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
  { release, limits, prices }: RecordOptions,
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
    prices: await pricesOf(prisma, agentIds, prices),
  }
  yield heading
  for await (const { table, row } of readMovedRows(db, spaceId, runsOfSpace(spaceId))) {
    yield { table, row: table === 'Entity' ? { ...row, externalId: null } : row }
    if (table === 'File') yield* bytesOfFile(files, row as { id: string; hash: string })
  }
  yield* furtherRows(prisma, spaceId, agentIds)
}

/**
 * A condition on a run `t`: the space triggered it, or a plan, a service or an inbox did, and the run has worked nowhere else.
 */
export const runsOfSpace = (
  spaceId: string,
) => Prisma.sql`(t."triggerSpaceId" = ${spaceId} OR (t."triggerSpaceId" IS NULL
  AND NOT EXISTS (SELECT 1 FROM "RunSpace" w WHERE w."runId" = t.id AND w."spaceId" <> ${spaceId})
  AND NOT EXISTS (SELECT 1 FROM "InboxEvent" e WHERE e."runId" = t.id AND e."spaceId" <> ${spaceId})
  AND (t."activeSpaceId" = ${spaceId}
    OR EXISTS (SELECT 1 FROM "RunSpace" w WHERE w."runId" = t.id)
    OR (EXISTS (SELECT 1 FROM "Membership" m WHERE m."entityId" = t."agentId" AND m."spaceId" = ${spaceId})
      AND NOT EXISTS (SELECT 1 FROM "Membership" m WHERE m."entityId" = t."agentId" AND m."spaceId" <> ${spaceId})))))`

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
  agentIds: string[],
  prices: Config['prices'],
): Promise<RecordingHeading['prices']> {
  const agents = await prisma.agent.findMany({
    where: { id: { in: agentIds } },
    select: { model: true, fallbackModels: true },
  })
  const used = await prisma.step.findMany({
    where: {
      runId: {
        in: (await prisma.run.findMany({ where: { agentId: { in: agentIds } }, select: { id: true } })).map(
          ({ id }) => id,
        ),
      },
    },
    distinct: ['model'],
    select: { model: true },
  })
  const names = new Set([
    ...agents.flatMap(({ model, fallbackModels }) => [model, ...fallbackModels]),
    ...used.map(({ model }) => model),
  ])
  return Object.fromEntries(
    [...names].sort().flatMap((name) => {
      const price = prices.get(name)
      return price === undefined ? [] : [[name, price]]
    }),
  )
}

/** Yields the rows of RECORDED_TABLES whose sources are not confidential for this space's members. */
async function* furtherRows(
  prisma: Database['prisma'],
  spaceId: string,
  agentIds: string[],
): AsyncGenerator<{ table: RecordedTable; row: object }> {
  const ofAgents = Prisma.sql`t."agentId" = ANY(${agentIds}::text[])`
  const foreign = (marks: Prisma.Sql) => Prisma.sql`${confidentialAmong(marks)} <@ ARRAY[${spaceId}]::text[]`
  const isOpen = foreign(Prisma.sql`t.places || t.label`)
  const since = Prisma.sql`(SELECT s."createdAt" FROM "Space" s WHERE s.id = ${spaceId})`
  // A version that was made for another space may quote it.
  const hasOthers = Prisma.sql`EXISTS (SELECT 1 FROM "Space" s WHERE s.confidential AND s.id <> ${spaceId})`
  const selects: [RecordedTable, Prisma.Sql][] = [
    ['AgentVersion', Prisma.sql`SELECT t.id, to_jsonb(t) - 'note' AS row FROM "AgentVersion" t WHERE ${ofAgents}`],
    ['Memory', Prisma.sql`SELECT t.id, to_jsonb(t) AS row FROM "Memory" t WHERE ${ofAgents} AND ${isOpen}`],
    ['Goal', Prisma.sql`SELECT t.id, to_jsonb(t) AS row FROM "Goal" t WHERE ${ofAgents} AND ${isOpen}`],
    ['Plan', Prisma.sql`SELECT t.id, to_jsonb(t) AS row FROM "Plan" t WHERE ${ofAgents} AND ${isOpen}`],
    [
      'PlanFiring',
      Prisma.sql`SELECT t.id, to_jsonb(t) AS row FROM "PlanFiring" t JOIN "Plan" p ON p.id = t."planId"
        WHERE p."agentId" = ANY(${agentIds}::text[]) AND ${foreign(Prisma.sql`p.places || p.label`)} AND t."firedAt" >= ${since}`,
    ],
    [
      'InboxEvent',
      Prisma.sql`SELECT t.id, to_jsonb(t) AS row FROM "InboxEvent" t WHERE ${ofAgents} AND ${isOpen}
        AND (t."spaceId" = ${spaceId} OR (t."spaceId" IS NULL AND NOT ${hasOthers}))`,
    ],
    [
      'AuditEntry',
      Prisma.sql`SELECT t.id, to_jsonb(t) AS row FROM "AuditEntry" t WHERE NOT t.refused AND t.action = ANY(${RECORDED_ACTIONS}::text[])
        AND (t."targetId" = ${spaceId} OR t.detail->>'spaceId' = ${spaceId} OR t."targetId" IN (SELECT id FROM "Run" WHERE "triggerSpaceId" = ${spaceId}))`,
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
      for (const { row } of rows) yield { table, row }
      if (rows.length < ROWS_AT_ONCE) break
      after = rows.at(-1)?.id ?? after
    }
  }
}
