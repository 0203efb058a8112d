import { Prisma, type Run } from '../generated/prisma/client.ts'
import type { Changes } from '../platform/changes.ts'
import type { Database } from '../platform/db.ts'

/** Tokens of one step or one run; `estimated` where the provider gave no figures. */
export interface Usage {
  inputTokens: number
  /** Of `inputTokens`: what the provider had in its cache. */
  cachedInputTokens: number
  outputTokens: number
  estimated: boolean
}

/** What one generation used of a model. */
export interface Spending extends Usage {
  model: string
  /** Null: the model has no known price. */
  costNanos: number | null
}

/** The day (UTC) of what is counted now. */
export const TODAY = Prisma.sql`(now() AT TIME ZONE 'UTC')::date`

/** After a change of what a message has set off, those who see it are told at the latest then: at most one such event in so long. */
const TELL_AFTER = Prisma.sql`interval '2 seconds'`

/** What changes of the run whose generation it was: counting what it used settles what was reserved for it. */
export const settledInRun = (spent: Spending): Prisma.Sql =>
  Prisma.sql`${countInRun(spent)}, "reservedTokens" = 0, "reservedNanos" = 0`

/** What changes of the run. Sums stop at what the columns hold: a provider's figures fail no run. */
function countInRun({ inputTokens, cachedInputTokens, outputTokens, ...spent }: Spending): Prisma.Sql {
  const sum = (column: string, tokens: number) =>
    Prisma.sql`${Prisma.raw(`"${column}"`)} = least(${Prisma.raw(`"${column}"`)}::bigint + ${tokens}, 2147483647)::int`
  return Prisma.sql`${sum('inputTokens', inputTokens)}, ${sum('cachedInputTokens', cachedInputTokens)}, ${sum('outputTokens', outputTokens)},
    "usageEstimated" = "usageEstimated" OR ${spent.estimated}, "costNanos" = "costNanos" + ${spent.costNanos}::float8,
    "usageSpaceId" = coalesce("usageSpaceId", "deepestSpaceId", "triggerSpaceId", ''),
    "usageDay" = coalesce("usageDay", ${TODAY}), "usageModel" = coalesce("usageModel", ${spent.model})`
}

/**
 * The ledger's part of a statement that holds a run (`FROM held`): its day and its root. Every statement takes the rows in this
 * order, the run's own first. What a run was before the statement says whether it is counted already.
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
    root: Prisma.sql`
      INSERT INTO "RootUsage" AS u ("rootId", "inputTokens", "cachedInputTokens", "outputTokens", "costNanos", "isUnpriced",
        "isEstimated", "tellAt")
      SELECT h."payingRootId", ${amounts}, ${estimated},
        CASE WHEN starts_with(h."payingRootId", 'msg_') THEN clock_timestamp() + ${TELL_AFTER} END
      FROM held h WHERE EXISTS (SELECT 1 FROM daily)
      ON CONFLICT ("rootId") DO UPDATE SET ${summed('u')}, "isEstimated" = u."isEstimated" OR excluded."isEstimated",
        "tellAt" = coalesce(u."tellAt", excluded."tellAt")`,
  }
}

/** Adds what is new to what the row of this name holds. */
function summed(row: string): Prisma.Sql {
  const sums = ['inputTokens', 'cachedInputTokens', 'outputTokens', 'costNanos'].map(
    (column) => `"${column}" = ${row}."${column}" + excluded."${column}"`,
  )
  return Prisma.raw(`${sums.join(', ')}, "isUnpriced" = ${row}."isUnpriced" OR excluded."isUnpriced"`)
}

/** Counts what a run used that it may not write any more, or that led to nothing; also where nothing else is left of it. */
export async function countLost(db: Database, run: Run, spent: Spending): Promise<void> {
  const { daily, root } = countInLedger(spent)
  const { id, attempt, agentId, rootId, deepestSpaceId, triggerSpaceId } = run
  await db.prisma.$executeRaw`
    WITH run AS (
      UPDATE "Run" SET ${countInRun(spent)}, "reservedTokens" = CASE WHEN attempt = ${attempt} THEN 0 ELSE "reservedTokens" END,
        "reservedNanos" = CASE WHEN attempt = ${attempt} THEN 0 ELSE "reservedNanos" END
      WHERE id = ${id} RETURNING 1),
    held AS (
      SELECT ${id}::text AS "runId", ${agentId}::text AS "agentId", ${rootId}::text AS "payingRootId",
        ${deepestSpaceId ?? triggerSpaceId}::text AS "payingSpaceId", (SELECT count(*) FROM run) AS written
    ), daily AS (${daily}), root AS (${root}) SELECT 1`
}

/** Within the end of a cycle that is rolled back: it is no run, and what it used stays. Takes its row with it. */
export const rolledBack = (runId: string): Prisma.Sql => Prisma.sql`
  WITH gone AS (DELETE FROM "Run" WHERE id = ${runId} RETURNING *)
  UPDATE "DailyUsage" d SET runs = d.runs - 1, "skippedCycles" = d."skippedCycles" + 1 FROM gone r
  WHERE d.day = r."usageDay" AND d."agentId" = r."agentId" AND d."spaceId" = r."usageSpaceId" AND d.model = r."usageModel"`
