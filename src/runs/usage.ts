import { spaceTopic } from '../broker/topics.ts'
import { Prisma } from '../generated/prisma/client.ts'
import { BadInputError } from '../lib/errors.ts'
import type { Platform } from '../platform/platform.ts'
import { TODAY, type Usage } from '../stores/run-store.ts'
import { CHANGED_ROOTS_SQL, type ChangedRoot, clearPublishedSql, postponeChangedSql } from '../stores/usage-store.ts'
import type { Timed } from './due.ts'

/** The dimensions by which usage can be grouped. */
export type UsageDimension = 'DAY' | 'AGENT' | 'SPACE' | 'MODEL' | 'HUMAN'

/** Selects usage of the UTC days from `from` (inclusive) to `to` (exclusive). */
export interface UsageFilter {
  from: Date
  to: Date
  by: readonly UsageDimension[]
  agentId?: string | null
  spaceId?: string | null
}

/** Usage grouped by the requested dimensions. All other dimensions are null. */
export interface UsageRow {
  day: Date | null
  agentId: string | null
  /** The space that triggered the usage. Also null for usage without a triggering space. */
  spaceId: string | null
  model: string | null
  /** The human at the root. Also null for usage without a human at the root. */
  humanId: string | null
  /** The number of runs that used the model. Rolled-back cycles are not included. They are counted as skipped. */
  runs: number
  skippedCycles: number
  inputTokens: number
  cachedInputTokens: number
  outputTokens: number
  /** The cost in nano-dollars; null if some of the usage has no price. */
  costNanos: number | null
}

/** A total number of tokens, and its cost. */
export interface CostedUsage extends Usage {
  costNanos: number | null
}

/** Reads usage from the ledger. It includes rolled-back cycles and deleted runs. */
export interface UsageReading {
  /** Returns usage ordered by day, agent, space, model and human. @throws BadInputError for more than 10,000 rows */
  query(filter: UsageFilter): Promise<UsageRow[]>
  /** Returns the total usage so far of each root's runs and cycles. The map has no entry for a root without usage. */
  ofRoots(rootIds: readonly string[]): Promise<Map<string, CostedUsage>>
  /**
   * Returns today's (UTC) usage that counts towards the budgets of agents, spaces and humans, by id. The map has no
   * entry for an owner without usage. An agent or space shares its budget with its original and all copies, so their
   * usage is included.
   */
  today(ownerIds: readonly string[]): Promise<Map<string, SpentToday>>
  /** Finds messages whose usage has changed and must be published. */
  timed: Timed
}

/** The total number of tokens, and their cost; null if some of the usage has no price. */
export interface SpentToday {
  tokens: number
  costNanos: number | null
}

const DAY_MS = 86_400_000
const MOST_ROWS = 10_000
const LARGEST_INT = 2_147_483_647

const COLUMNS: Record<UsageDimension, Prisma.Sql> = {
  DAY: Prisma.sql`d.day`,
  AGENT: Prisma.sql`d."agentId"`,
  SPACE: Prisma.sql`d."spaceId"`,
  MODEL: Prisma.sql`d.model`,
  HUMAN: Prisma.sql`d."humanId"`,
}
const DIMENSIONS = Object.keys(COLUMNS) as UsageDimension[]

export function createUsageReading({ db, log }: Pick<Platform, 'db' | 'log'>): UsageReading {
  return {
    async query(filter) {
      const rows = await db.transaction(async (tx) => {
        // A generic plan must suit any number of days. It reads each row through the index, which takes three times as
        // long for 200,000 rows.
        await tx.$executeRaw`SET LOCAL plan_cache_mode = force_custom_plan`
        return tx.$queryRaw<SummedRow[]>(statementOf(filter))
      })
      if (rows.length > MOST_ROWS)
        throw new BadInputError(
          `The result would have more than ${MOST_ROWS} rows: request fewer days or fewer dimensions.`,
          'by',
        )
      return rows.map(({ day, ...row }) => ({ ...row, day: day === null ? null : new Date(day * DAY_MS) }))
    },
    async ofRoots(rootIds) {
      const rows = await db.prisma.rootUsage.findMany({ where: { rootId: { in: [...rootIds] } } })
      return new Map(
        rows.map(({ rootId, isUnpriced, isEstimated: estimated, costNanos, ...tokens }) => {
          const usage = {
            inputTokens: Math.min(tokens.inputTokens, LARGEST_INT),
            cachedInputTokens: Math.min(tokens.cachedInputTokens, LARGEST_INT),
            outputTokens: Math.min(tokens.outputTokens, LARGEST_INT),
          }
          return [rootId, { ...usage, estimated, costNanos: isUnpriced ? null : costNanos }]
        }),
      )
    },
    async today(ownerIds) {
      const ofOwner = (owner: Prisma.Sql, ledger: Prisma.Sql = DAILY) => Prisma.sql`
        SELECT member.id, sum("inputTokens" + "outputTokens") AS tokens,
          CASE WHEN bool_or("isUnpriced") THEN NULL ELSE sum("costNanos") END AS "costNanos"
        FROM member JOIN ${ledger} ON day = ${TODAY} AND ${owner} = member.relative GROUP BY 1`
      const rows = await db.prisma.$queryRaw<(SpentToday & { id: string })[]>`
        WITH member AS MATERIALIZED (
          SELECT given.id, relative FROM unnest(${[...new Set(ownerIds)]}::text[]) given(id), unnest("budgetFamily"(given.id)) relative)
        ${ofOwner(Prisma.sql`"agentId"`)} UNION ALL ${ofOwner(Prisma.sql`"spaceId"`)}
        UNION ALL ${ofOwner(Prisma.sql`"humanId"`, Prisma.sql`"HumanUsage"`)}`
      return new Map(rows.map(({ id, ...spent }) => [id, spent]))
    },
    timed: {
      what: 'a message whose usage changed',
      rows: CHANGED_ROOTS_SQL,
      async handle(rootIds) {
        const changed = await db.prisma.$queryRaw<ChangedRoot[]>(postponeChangedSql(rootIds))
        for (const { messageId, spaceId } of changed)
          if (spaceId !== null) await log.append(spaceTopic(spaceId), { type: 'MessageUpdated', messageId })
        if (changed.length > 0) await db.prisma.$executeRaw(clearPublishedSql(changed))
      },
    },
  }
}

const DAILY = Prisma.sql`"DailyUsage"`

const AMOUNTS = ['runs', 'skippedCycles', 'inputTokens', 'cachedInputTokens', 'outputTokens', 'costNanos']
const SAME = Prisma.raw(AMOUNTS.map((name) => `"${name}"`).join(', '))
const NEGATED = Prisma.raw(AMOUNTS.map((name) => `- "${name}"`).join(', '))
const KEY = Prisma.sql`day, "agentId", "spaceId", model`

/**
 * The daily ledger, split by human. It consists of the rows of humans and a remainder with all other usage. The
 * remainder of a row has no price if any part of the row has no price.
 */
const BY_HUMAN = Prisma.sql`(
  SELECT ${KEY}, "humanId", ${SAME}, "isUnpriced" FROM "HumanUsage"
  UNION ALL SELECT ${KEY}, '', ${SAME}, "isUnpriced" FROM "DailyUsage"
  UNION ALL SELECT ${KEY}, '', ${NEGATED}, false FROM "HumanUsage")`

/** A row with its day as a number, because parsing a date would take ten times as long. */
type SummedRow = Omit<UsageRow, 'day'> & { day: number | null }

function statementOf({ from, to, by, agentId, spaceId }: UsageFilter): Prisma.Sql {
  const columns = DIMENSIONS.filter((dimension) => by.includes(dimension)).map((dimension) => COLUMNS[dimension])
  const shown = (dimension: UsageDimension, none: Prisma.Sql) => (by.includes(dimension) ? COLUMNS[dimension] : none)
  const groups = columns.length === 0 ? Prisma.empty : Prisma.sql`GROUP BY ${Prisma.join(columns)}`
  const isByHuman = by.includes('HUMAN')
  const isUsed = Prisma.sql`HAVING sum(d.runs) <> 0 OR sum(d."skippedCycles") <> 0 OR sum(d."inputTokens" + d."outputTokens") <> 0`
  const order = columns.length === 0 ? Prisma.empty : Prisma.sql`ORDER BY ${Prisma.join(columns)}`
  return Prisma.sql`
    SELECT ${shown('DAY', Prisma.sql`NULL::date`)} - '1970-01-01'::date AS day, ${shown('AGENT', Prisma.sql`NULL::text`)} AS "agentId",
      nullif(${shown('SPACE', Prisma.sql`''`)}, '') AS "spaceId", ${shown('MODEL', Prisma.sql`NULL::text`)} AS model,
      ${isByHuman ? Prisma.sql`nullif(d."humanId", '')` : Prisma.sql`NULL::text`} AS "humanId",
      coalesce(sum(d.runs), 0)::int AS runs, coalesce(sum(d."skippedCycles"), 0)::int AS "skippedCycles",
      coalesce(sum(d."inputTokens"), 0) AS "inputTokens", coalesce(sum(d."cachedInputTokens"), 0) AS "cachedInputTokens",
      coalesce(sum(d."outputTokens"), 0) AS "outputTokens",
      CASE WHEN bool_or(d."isUnpriced") THEN NULL ELSE coalesce(sum(d."costNanos"), 0) END AS "costNanos"
    FROM ${isByHuman ? BY_HUMAN : DAILY} d WHERE d.day >= ${firstDayFrom(from)}::date AND d.day < ${firstDayFrom(to)}::date
      ${agentId == null ? Prisma.empty : Prisma.sql`AND d."agentId" = ${agentId}`}
      ${spaceId == null ? Prisma.empty : Prisma.sql`AND d."spaceId" = ${spaceId}`}
    ${groups} ${isByHuman ? isUsed : Prisma.empty} ${order} LIMIT ${MOST_ROWS + 1}`
}

const LAST_DAY = Date.parse('9999-12-31T00:00:00Z')

/** Returns the first day that begins at or after this instant; at most the last representable day. */
function firstDayFrom(moment: Date): string {
  const day = Math.ceil(moment.getTime() / DAY_MS) * DAY_MS
  return new Date(Math.min(day, LAST_DAY)).toISOString().slice(0, 10)
}
