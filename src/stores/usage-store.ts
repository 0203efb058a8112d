import { Prisma, type Run } from '../generated/prisma/client.ts'
import { rootHuman } from '../platform/budget-state.ts'
import type { Changes } from '../platform/changes.ts'
import type { Database } from '../platform/db.ts'
import { addLostUsageSql, deleteRunSql, type Spending, TODAY } from './run-store.ts'
import { ACTIVE_RUNS_SQL } from './status-sql.ts'

// Contains the statements that write the usage tables: "DailyUsage", "HumanUsage" and "RootUsage".

/**
 * The maximum delay until a change in a message's usage is published. It is also the minimum interval between two
 * events about the same message.
 */
const TELL_AFTER = Prisma.sql`interval '2 seconds'`

const PAYING_HUMAN = Prisma.sql`coalesce("payingHumanId", ${rootHuman(Prisma.sql`"payingRootId"`, Prisma.sql`"payingAskers"`)})`

/**
 * Returns CTEs for a fenced write (runs/hold.ts). They add usage to the day, the human and the root. Every statement
 * locks the rows in this order, after the row of the run. The previous value of the run's `usageDay` shows whether
 * the run has already been counted for a day.
 */
export function countInLedger(spent: Spending): Changes {
  const { model, inputTokens, cachedInputTokens, outputTokens, costNanos, estimated } = spent
  const amounts = Prisma.sql`${inputTokens}::float8, ${cachedInputTokens}::float8, ${outputTokens}::float8,
    ${costNanos ?? 0}::float8, ${costNanos === null}`
  return {
    daily: Prisma.sql`
      INSERT INTO "DailyUsage" AS d (day, "agentId", "spaceId", model, runs,
        "inputTokens", "cachedInputTokens", "outputTokens", "costNanos", "isUnpriced")
      SELECT ${TODAY}, h."agentId", coalesce(h."payingSpaceId", ''), ${model},
        coalesce((SELECT ("usageDay" IS NULL)::int FROM "Run" WHERE id = h."runId"), 0), ${amounts} FROM held h
      ON CONFLICT (day, "agentId", "spaceId", model) DO UPDATE SET runs = d.runs + excluded.runs, ${summed('d')}
      RETURNING 1`,
    human: Prisma.sql`
      INSERT INTO "HumanUsage" AS p (day, "humanId", "agentId", "spaceId", model, runs,
        "inputTokens", "cachedInputTokens", "outputTokens", "costNanos", "isUnpriced")
      SELECT ${TODAY}, h.id, h."agentId", coalesce(h."payingSpaceId", ''), ${model},
        coalesce((SELECT ("usageDay" IS NULL)::int FROM "Run" WHERE id = h."runId"), 0), ${amounts}
      FROM (SELECT *, ${PAYING_HUMAN} AS id FROM held OFFSET 0) h WHERE h.id IS NOT NULL AND EXISTS (SELECT 1 FROM daily)
      ON CONFLICT (day, "humanId", "agentId", "spaceId", model) DO UPDATE SET runs = p.runs + excluded.runs, ${summed('p')}
      RETURNING 1`,
    root: Prisma.sql`
      INSERT INTO "RootUsage" AS u ("rootId", "inputTokens", "cachedInputTokens", "outputTokens", "costNanos", "isUnpriced",
        "isEstimated", "tellAt")
      SELECT h."payingRootId", ${amounts}, ${estimated},
        CASE WHEN starts_with(h."payingRootId", 'msg_') THEN clock_timestamp() + ${TELL_AFTER} END
      FROM held h WHERE EXISTS (SELECT 1 FROM daily) AND (SELECT count(*) FROM human) >= 0
      ON CONFLICT ("rootId") DO UPDATE SET ${summed('u')}, "isEstimated" = u."isEstimated" OR excluded."isEstimated",
        "tellAt" = coalesce(u."tellAt", excluded."tellAt")`,
  }
}

/** Returns assignments that add the excluded values to the row with this alias. */
function summed(row: string): Prisma.Sql {
  const sums = ['inputTokens', 'cachedInputTokens', 'outputTokens', 'costNanos'].map(
    (column) => `"${column}" = ${row}."${column}" + excluded."${column}"`,
  )
  return Prisma.raw(`${sums.join(', ')}, "isUnpriced" = ${row}."isUnpriced" OR excluded."isUnpriced"`)
}

/** The columns of a run that determine the budgets to which its usage counts. */
type PayingRun = Pick<Run, 'id' | 'attempt' | 'agentId' | 'rootId' | 'deepestSpaceId' | 'triggerSpaceId'> & {
  askers: readonly string[]
}

/**
 * Counts usage without holding the run, for an attempt that lost its claim or for a failed generation. Also works if
 * the run was deleted.
 */
export async function countLost(db: Database, run: PayingRun, spent: Spending): Promise<void> {
  const { daily, human, root } = countInLedger(spent)
  const { id, attempt, agentId, rootId, deepestSpaceId, triggerSpaceId, askers } = run
  await db.prisma.$executeRaw`
    WITH run AS (
      ${addLostUsageSql(id, attempt, spent)} RETURNING 1),
    held AS (
      SELECT ${id}::text AS "runId", ${agentId}::text AS "agentId", ${rootId}::text AS "payingRootId",
        ${deepestSpaceId ?? triggerSpaceId}::text AS "payingSpaceId", ${[...askers]}::text[] AS "payingAskers", NULL::text AS "payingHumanId",
        (SELECT count(*) FROM run) AS written
    ), daily AS (${daily}), human AS (${human}), root AS (${root}) SELECT 1`
}

const SKIPPED = Prisma.sql`runs = d.runs - 1, "skippedCycles" = d."skippedCycles" + 1`

/** SQL condition: the row `d` of a usage table contains the usage of the run `r`. */
const COUNTS_RUN = Prisma.sql`
  d.day = r."usageDay" AND d."agentId" = r."agentId" AND d."spaceId" = r."usageSpaceId" AND d.model = r."usageModel"`

/**
 * Deletes the run of a cycle that is erased because the agent skipped it, and counts the cycle as skipped. The usage
 * of the run remains counted.
 */
export const rollBackCycleSql = (runId: string): Prisma.Sql => Prisma.sql`
  WITH gone AS (${deleteRunSql(runId)} RETURNING *),
  daily AS (UPDATE "DailyUsage" d SET ${SKIPPED} FROM gone r WHERE ${COUNTS_RUN} RETURNING 1)
  UPDATE "HumanUsage" d SET ${SKIPPED} FROM gone r
  WHERE EXISTS (SELECT 1 FROM daily) AND ${COUNTS_RUN} AND d."humanId" = r."usageHumanId"`

/** A root whose usage has changed. */
export interface ChangedRoot {
  messageId: string
  /** The space of the message; null if the message was deleted. */
  spaceId: string | null
  /** The total number of tokens to publish. */
  tokens: number
}

/** Selects the roots whose changed usage must be published, with the times at which this is due. */
export const CHANGED_ROOTS_SQL = Prisma.sql`SELECT "rootId" AS id, "tellAt" AS at FROM "RootUsage" WHERE "tellAt" IS NOT NULL`

/**
 * Postpones the due times, so that the usage is published later if this process dies before publishing it. Returns
 * `ChangedRoot`s.
 */
export function postponeChangedSql(rootIds: string[]): Prisma.Sql {
  return Prisma.sql`
    WITH taken AS (
      UPDATE "RootUsage" u SET "tellAt" = clock_timestamp() + interval '10 seconds'
      FROM (
        SELECT "rootId" FROM "RootUsage" WHERE "rootId" = ANY(${rootIds}::text[]) AND "tellAt" <= clock_timestamp()
        FOR NO KEY UPDATE SKIP LOCKED
      ) due WHERE u."rootId" = due."rootId" RETURNING u."rootId", u."inputTokens" + u."outputTokens" AS tokens
    )
    SELECT t."rootId" AS "messageId", m."spaceId", t.tokens FROM taken t LEFT JOIN "Message" m ON m.id = t."rootId"`
}

/** Clears the due times, except for roots whose usage has changed in the meantime. */
export function clearPublishedSql(changed: readonly ChangedRoot[]): Prisma.Sql {
  const ids = changed.map(({ messageId }) => messageId)
  const tokens = changed.map((one) => one.tokens)
  return Prisma.sql`
    UPDATE "RootUsage" u SET "tellAt" = CASE WHEN u."inputTokens" + u."outputTokens" = t.tokens THEN NULL
      ELSE clock_timestamp() + interval '2 seconds' END
    FROM unnest(${ids}::text[], ${tokens}::float8[]) AS t("rootId", tokens) WHERE u."rootId" = t."rootId"`
}

/** Returns a CTE that deletes the usage of these roots. */
export const deleteRootUsageSql = (rootIds: Prisma.Sql): Prisma.Sql =>
  Prisma.sql`DELETE FROM "RootUsage" WHERE "rootId" IN (${rootIds})`

/** Returns a CTE that deletes the usage of these roots, except roots that have an active run. */
export const deleteIdleRootUsageSql = (rootIds: Prisma.Sql): Prisma.Sql => Prisma.sql`
  DELETE FROM "RootUsage" u WHERE u."rootId" IN (${rootIds}) AND NOT EXISTS (
    SELECT 1 FROM "Run" r WHERE r."rootId" = u."rootId" AND r.status IN ${ACTIVE_RUNS_SQL})`
