import { confidentialAmong, type Provenance } from '../confidentiality/marks.ts'
import { Prisma, type Run, type RunStatus, type TriggerType } from '../generated/prisma/client.ts'
import { newId } from '../lib/ids.ts'
import type { Json } from '../lib/json.ts'
import { rootHuman } from '../platform/budget-state.ts'
import type { Database, Tx } from '../platform/db.ts'
import { insertionOf } from '../platform/insertion.ts'
import type { Completion, RunEnding } from '../rules/run-end.ts'
import { WAITS_OUTSIDE_RUN_SQL } from './call-store.ts'
import { ACTIVE_RUNS_SQL, IS_ACTIVE_CYCLE_SQL } from './status-sql.ts'

/**
 * A run to write, with its agent, trigger and origin. Absent fields are stored as null. The row's label contains
 * those marks that are confidential at the time of writing.
 */
export interface NewRun extends Provenance {
  agentId: string
  /** The key for deduplication. At most one run can have the same key. */
  dedupKey: string | null
  triggerType: TriggerType
  triggerName?: string | null
  triggerSpaceId?: string | null
  triggerMessageId?: string | null
  threadRootId?: string | null
  triggerSenderId?: string | null
  triggerServiceId?: string | null
  /** A one-line description: the sender or source, the space, and the topic. */
  triggerSummary: string
  triggerPayload?: Json
  activeSpaceId?: string | null
  enteredSeq?: number | null
  depth: number
  rootId: string
  parentRunId?: string | null
  chainId?: string | null
  /** The chain turn or delegation that started the run, as a `WokenBy`. */
  wokenBy?: Json
  /** The failed run that this run retries. */
  retryOfId?: string | null
}

/**
 * SQL for the requester of a new run `r`. It is the requester of the run that woke the new run. Without such a run,
 * it is the first of these that exists: the only human in `askers`, the service, the agent.
 */
const REQUESTER_OF_NEW = Prisma.sql`coalesce((SELECT nullif(p."requesterId", '') FROM "Run" p WHERE p.id = r."parentRunId"),
  CASE WHEN cardinality(r.askers) = 1 THEN r.askers[1] END, r."triggerServiceId", r."agentId")`

/** Returns a statement, or a part of one, that writes one or more QUEUED runs with increasing ids. */
export function insertRunsSql(runs: NewRun[], within: { from?: string; enteredSeq?: Prisma.Sql } = {}): Prisma.Sql {
  const { from, enteredSeq } = within
  const rows = runs.map((run) => ({ ...run, id: newId('run'), status: 'QUEUED' }))
  return insertionOf('Run', rows, {
    ...(from === undefined ? {} : { from }),
    computed: {
      label: confidentialAmong(Prisma.sql`r.places || r.label`),
      requesterId: REQUESTER_OF_NEW,
      ...(enteredSeq === undefined ? {} : { enteredSeq }),
    },
  })
}

/**
 * Writes QUEUED runs, which workers will claim. Returns the new runs. A run is not written if another run has its
 * key.
 */
export async function insertRuns(tx: Tx, runs: NewRun[]): Promise<Run[]> {
  return runs.length === 0 ? [] : tx.$queryRaw<Run[]>(insertRunsSql(runs))
}

/** The duration of a lease that is not renewed, by the clock of the database. */
const LEASE = Prisma.sql`interval '10 seconds'`
/**
 * A lease is renewed when its remaining time is less than this. The lease is then about three seconds old, and three
 * more renewals can fail before it expires.
 */
const RENEWED_BELOW = Prisma.sql`interval '7.5 seconds'`

/** The worker that claims runs. */
export interface Taker {
  worker: number
  maxRunSeconds: number
}

/**
 * Returns the assignments of a claim. A run's time limit starts with the first claim. If the limit was suspended, it
 * continues with the remaining time.
 */
const claimSql = ({ worker, maxRunSeconds }: Taker) => Prisma.sql`
  status = 'RUNNING', attempt = r.attempt + 1, "fruitlessAttempts" = r."fruitlessAttempts" + 1, "claimableAt" = NULL,
  worker = ${worker}, "reservedTokens" = 0, "reservedNanos" = 0, "leaseUntil" = clock_timestamp() + ${LEASE}, "startedAt" = coalesce(r."startedAt", now()), "timeLeftMs" = NULL,
  "agentVersion" = CASE WHEN r."startedAt" IS NULL THEN (SELECT a.version FROM "Agent" a WHERE a.id = r."agentId") ELSE r."agentVersion" END,
  "deadlineAt" = coalesce(r."deadlineAt", now() + r."timeLeftMs" * interval '1 millisecond',
    coalesce(r."startedAt", now()) + ${maxRunSeconds} * interval '1 second')`

/** Claims the runs `r` that the SQL in `which` selects. */
export const takeRunsSql = (taker: Taker, which: Prisma.Sql): Prisma.Sql =>
  Prisma.sql`UPDATE "Run" r SET ${claimSql(taker)} ${which}`

/** Parks QUEUED runs of paused agents, so that no worker can claim them until the agent is resumed. */
export const parkRunsSql = (ids: Prisma.Sql): Prisma.Sql => Prisma.sql`
  UPDATE "Run" SET "claimableAt" = NULL WHERE id IN (
    SELECT id FROM "Run" WHERE id IN (${ids}) AND status = 'QUEUED' FOR NO KEY UPDATE SKIP LOCKED)`

/** Makes active runs read their journals again, because texts were removed from the journals. */
export async function noteRedaction(tx: Tx, runIds: readonly string[]): Promise<void> {
  await tx.$executeRaw`
    UPDATE "Run" SET redactions = redactions + 1 WHERE id = ANY(${[...runIds]}::text[]) AND status IN ${ACTIVE_RUNS_SQL}`
}

/** Parks the QUEUED runs of an agent, or makes them claimable again. Runs that are already active continue. */
export async function parkRunsOfAgent(tx: Tx, agentId: string, isParked: boolean): Promise<void> {
  await tx.$executeRaw`
    UPDATE "Run" SET "claimableAt" = CASE WHEN ${isParked}::boolean THEN NULL ELSE clock_timestamp() END
    WHERE "agentId" = ${agentId} AND status = 'QUEUED'`
}

/**
 * Renews the leases that are about three seconds old. Also renews expired leases if no worker has taken over the run.
 * Returns the ids of the claims that are still valid. Skips locked rows; the next call renews them.
 */
export function renewLeasesSql(claims: { id: string; attempt: number }[]): Prisma.Sql {
  const ids = claims.map(({ id }) => id)
  const attempts = claims.map(({ attempt }) => attempt)
  const isMine = Prisma.sql`r.id = c.id AND r.attempt = c.attempt AND r.status = 'RUNNING'`
  return Prisma.sql`
    WITH claims AS MATERIALIZED (
      SELECT * FROM unnest(${ids}::text[], ${attempts}::int[]) AS c(id, attempt)
    ), old AS MATERIALIZED (
      SELECT r.id FROM claims c JOIN "Run" r ON ${isMine} WHERE r."leaseUntil" < clock_timestamp() + ${RENEWED_BELOW}
      FOR NO KEY UPDATE OF r SKIP LOCKED
    ), renewed AS (
      UPDATE "Run" r SET "leaseUntil" = clock_timestamp() + ${LEASE}, "claimableAt" = NULL FROM old WHERE r.id = old.id
    )
    SELECT r.id FROM claims c JOIN "Run" r ON ${isMine}`
}

/** The changes to the row of a run in a fenced write. */
export interface HeldChanges {
  sets?: Prisma.Sql
  /** Whether the write is durable progress, which resets the count of attempts without progress. */
  isProgress?: boolean
}

/**
 * Returns SQL that selects the run's row if the run still belongs to the attempt. The SQL also locks the row, so that
 * a concurrent stop waits for the transaction.
 */
export function holdRunSql(runId: string, attempt: number, { sets, isProgress = false }: HeldChanges): Prisma.Sql {
  const isHeld = Prisma.sql`id = ${runId} AND status = 'RUNNING' AND attempt = ${attempt}`
  const changes = [...(isProgress ? [Prisma.sql`"fruitlessAttempts" = 0`] : []), ...(sets === undefined ? [] : [sets])]
  if (changes.length === 0) return Prisma.sql`SELECT ${HELD_COLUMNS} FROM "Run" WHERE ${isHeld} FOR NO KEY UPDATE`
  return Prisma.sql`UPDATE "Run" SET ${Prisma.join(changes)} WHERE ${isHeld} RETURNING ${HELD_COLUMNS}`
}

/**
 * The columns of a held run that other CTEs of the statement read: the budgets to which the run's usage counts
 * (usage-store.ts), and the run's marks. The human whose budget pays for a think cycle is not fixed, because the
 * cycle's root changes with its events.
 */
const HELD_COLUMNS = Prisma.sql`id AS "runId", "agentId", status AS "runStatus", "rootId" AS "payingRootId",
  coalesce("deepestSpaceId", "triggerSpaceId") AS "payingSpaceId", "askers" AS "payingAskers",
  CASE WHEN "triggerType" <> 'INBOX' THEN "usageHumanId" END AS "payingHumanId", places AS "runPlaces", label AS "runLabel"`

/**
 * The reason why a worker releases a run: `handed-over` at shutdown, `outage` of the database, or `fault` for an
 * internal error.
 */
export type HandBackReason = 'handed-over' | 'outage' | 'fault'

/** A run fails after this number of consecutive attempts in which nothing was written to its journal. */
export const MOST_FRUITLESS_ATTEMPTS = 3

/**
 * Ends the current attempt of a run that satisfies the condition, and makes the run claimable. With `handed-over`, it
 * is claimable immediately; with other reasons, after a pause. Returns null if the run does not satisfy the
 * condition.
 */
export async function setBackRun(
  db: Database,
  id: string,
  condition: Prisma.Sql,
  reason: HandBackReason,
): Promise<Pick<Run, 'attempt' | 'fruitlessAttempts'> | null> {
  const [run] = await db.prisma.$queryRaw<Pick<Run, 'attempt' | 'fruitlessAttempts'>[]>`
    UPDATE "Run" SET ${setBack(reason)}, "leaseUntil" = NULL WHERE id = ${id} AND ${condition}
    RETURNING attempt, "fruitlessAttempts"`
  return run ?? null
}

/**
 * Returns assignments for a pause of 1 s, 2 s, 4 s …, at most a minute. After progress, the next pause is 1 s again.
 * After too many crashes the run does not become claimable; its row has no lease, so the poller finds it until the
 * run has ended.
 */
function setBack(reason: HandBackReason): Prisma.Sql {
  if (reason === 'handed-over') {
    return Prisma.sql`"claimableAt" = clock_timestamp(), "fruitlessAttempts" = greatest(0, "fruitlessAttempts" - 1)`
  }
  const excused = reason === 'outage' ? 1 : 0
  const inARow = Prisma.sql`CASE WHEN "fruitlessAttempts" = 0 THEN 0 ELSE least(setbacks, 6) END`
  return Prisma.sql`"fruitlessAttempts" = greatest(0, "fruitlessAttempts" - ${excused}::int),
    setbacks = ${inARow} + 1, "claimableAt" = CASE WHEN "fruitlessAttempts" - ${excused}::int < ${MOST_FRUITLESS_ATTEMPTS}
      THEN clock_timestamp() + least(60, 2 ^ (${inARow})) * interval '1 second' END`
}

/**
 * Changes a run from RUNNING to WAITING_TOOL if at least one of its calls is still waiting. Suspends the run's time
 * limit if a waiting call has an explicit timeout. Returns false if all calls have results.
 */
export async function pauseRun(tx: Tx, id: string): Promise<boolean> {
  const count = await tx.$executeRaw`
    UPDATE "Run" SET status = 'WAITING_TOOL', "fruitlessAttempts" = 0, setbacks = 0, "leaseUntil" = NULL,
      "timeLeftMs" = CASE WHEN w.patient THEN greatest(0, extract(epoch FROM "deadlineAt" - now()) * 1000)::int END,
      "deadlineAt" = CASE WHEN w.patient THEN NULL ELSE "deadlineAt" END
    FROM (
      SELECT count(*) AS calls, bool_or(coalesce(t."timeoutGiven", false) OR coalesce((c.approval->>'patient')::boolean, false)) AS patient
      FROM "ToolCall" c LEFT JOIN "AgentTool" t ON t."agentId" = c."agentId" AND t.name = c."toolName"
      WHERE c."runId" = ${id} AND ${WAITS_OUTSIDE_RUN_SQL}
    ) w WHERE id = ${id} AND w.calls > 0`
  return count > 0
}

/** A run whose row is locked by this transaction. */
export interface LockedRun {
  id: string
  status: RunStatus
  triggerType: TriggerType
}

/**
 * Locks the row of the run to which a call belongs. Returns null if there is no such run or, with `unlessLocked`, if
 * another transaction has locked the row.
 */
export async function lockRunOfCall(
  tx: Tx,
  toolCallId: string,
  { unlessLocked }: { unlessLocked: boolean },
): Promise<LockedRun | null> {
  const [run] = await tx.$queryRaw<LockedRun[]>`
    SELECT id, status::text AS status, "triggerType"::text AS "triggerType" FROM "Run"
    WHERE id = (SELECT "runId" FROM "ToolCall" WHERE id = ${toolCallId}) FOR NO KEY UPDATE ${unlessLocked ? Prisma.sql`SKIP LOCKED` : Prisma.empty}`
  return run ?? null
}

/** Makes a run claimable once none of its calls waits for an answer from outside. */
export async function resumeRunOfCalls(tx: Tx, runId: string): Promise<void> {
  await tx.$executeRaw`
    UPDATE "Run" SET "claimableAt" = now() WHERE id = ${runId}
      AND NOT EXISTS (SELECT 1 FROM "ToolCall" WHERE "runId" = ${runId} AND ${WAITS_OUTSIDE_RUN_SQL})`
}

/** Makes active think cycles of these agents forget, when they end, everything that they received in the space. */
export async function forgetSpaceInCycles(tx: Tx, agentIds: string[], spaceId: string): Promise<void> {
  await tx.$executeRaw`
    UPDATE "Run" r SET forgets = array_append(r.forgets, ${spaceId})
    WHERE r."agentId" = ANY(${agentIds}::text[]) AND ${IS_ACTIVE_CYCLE_SQL} AND (
      ${spaceId} = ANY(r.places) OR EXISTS (SELECT 1 FROM "InboxEvent" e WHERE e."runId" = r.id AND e."spaceId" = ${spaceId}))`
}

/**
 * The token usage of a step or run. `estimated`: whether the numbers are estimates, because the provider reported
 * none.
 */
export interface Usage {
  inputTokens: number
  /** The number of input tokens that came from the provider's cache. */
  cachedInputTokens: number
  outputTokens: number
  estimated: boolean
}

/** The usage of one generation. */
export interface Spending extends Usage {
  model: string
  /** The cost in billionths of a US dollar; null if the model has no price. */
  costNanos: number | null
}

/** SQL for the current day in UTC. Usage is counted per day. */
export const TODAY = Prisma.sql`(now() AT TIME ZONE 'UTC')::date`

/** Returns assignments for the run's row that count the usage of a generation and release the run's reservation. */
export const settleUsageSql = (spent: Spending): Prisma.Sql =>
  Prisma.sql`${addUsageSql(spent)}, "reservedTokens" = 0, "reservedNanos" = 0`

const ROOT_HUMAN = rootHuman(Prisma.sql`"rootId"`, Prisma.sql`askers`)

/**
 * Returns assignments for the run's row that add usage. Limits the sums to the maximum of the column, so that wrong
 * numbers from a provider cannot make a run fail.
 */
function addUsageSql({ inputTokens, cachedInputTokens, outputTokens, ...spent }: Spending): Prisma.Sql {
  const sum = (column: string, tokens: number) =>
    Prisma.sql`${Prisma.raw(`"${column}"`)} = least(${Prisma.raw(`"${column}"`)}::bigint + ${tokens}, 2147483647)::int`
  return Prisma.sql`${sum('inputTokens', inputTokens)}, ${sum('cachedInputTokens', cachedInputTokens)}, ${sum('outputTokens', outputTokens)},
    "usageEstimated" = "usageEstimated" OR ${spent.estimated}, "costNanos" = "costNanos" + ${spent.costNanos}::float8,
    "usageSpaceId" = coalesce("usageSpaceId", "deepestSpaceId", "triggerSpaceId", ''),
    "usageHumanId" = CASE WHEN "usageDay" IS NULL THEN ${ROOT_HUMAN} ELSE "usageHumanId" END,
    "usageDay" = coalesce("usageDay", ${TODAY}), "usageModel" = coalesce("usageModel", ${spent.model})`
}

/**
 * Adds usage to a run that this process may no longer hold. Releases the reservation only if it belongs to this
 * attempt.
 */
export const addLostUsageSql = (id: string, attempt: number, spent: Spending): Prisma.Sql => Prisma.sql`
  UPDATE "Run" SET ${addUsageSql(spent)}, "reservedTokens" = CASE WHEN attempt = ${attempt} THEN 0 ELSE "reservedTokens" END,
    "reservedNanos" = CASE WHEN attempt = ${attempt} THEN 0 ELSE "reservedNanos" END
  WHERE id = ${id}`

export const deleteRunSql = (id: string): Prisma.Sql => Prisma.sql`DELETE FROM "Run" WHERE id = ${id}`

/** Records that a run has posted in a space. The CTE `from` returns the space's `id`. */
export const insertRunSpaceSql = (runId: string, from: string): Prisma.Sql =>
  Prisma.sql`INSERT INTO "RunSpace" ("runId", "spaceId") SELECT ${runId}, id FROM ${Prisma.raw(`"${from}"`)} ON CONFLICT DO NOTHING`

/** Records that a run has posted in a space. */
export async function insertRunSpace(tx: Tx, runId: string, spaceId: string): Promise<void> {
  await tx.runSpace.createMany({ data: { runId, spaceId }, skipDuplicates: true })
}

/** Returns a CTE that deletes the records of the spaces in which the runs have posted. */
export const deleteSpacesOfRunsSql = (runIds: Prisma.Sql): Prisma.Sql =>
  Prisma.sql`DELETE FROM "RunSpace" WHERE "runId" IN (${runIds})`

export async function deleteRunSpaces(prisma: Pick<Tx, 'runSpace'>, spaceId: string): Promise<void> {
  await prisma.runSpace.deleteMany({ where: { spaceId } })
}

/** Writes the run of a think cycle. The worker that writes the run also claims it in the same transaction. */
export async function insertCycleRun(tx: Tx, run: Partial<Record<keyof Run, unknown>>): Promise<void> {
  await tx.$executeRaw(insertionOf('Run', [run], { computed: { requesterId: REQUESTER_OF_NEW } }))
}

/** The statuses from which a run may end, and further conditions. */
export interface EndFrom {
  id: string
  statuses: readonly RunStatus[]
  /** The attempt to which the run must belong. If absent, it may belong to any attempt. */
  attempt?: number
  /** Whether the run must have exceeded its time limit. */
  isOverdue?: boolean
}

/** Ends a run by compare-and-set. Returns null if the run does not satisfy the conditions in `from`. */
export async function endRunRow(tx: Tx, from: EndFrom, ending: RunEnding): Promise<Run | null> {
  const { id, statuses, attempt = null, isOverdue = false } = from
  const summary = ending.status === 'COMPLETED' ? ending.summary : null
  const error = ending.status === 'FAILED' ? ending.error : null
  const fault = ending.status === 'FAILED' ? (ending.fault ?? null) : null
  const stoppedById = ending.stopReason === 'STOPPED' ? ending.stoppedById : null
  const [run] = await tx.$queryRaw<Run[]>`
    UPDATE "Run" SET status = ${ending.status}::"RunStatus", "finishedAt" = now(), summary = coalesce(${summary}, summary),
      error = coalesce(${error}, error), fault = ${fault}, "stopReason" = ${ending.stopReason}::"RunStopReason", "stoppedById" = ${stoppedById},
      "claimableAt" = NULL, "deadlineAt" = NULL
    WHERE id = ${id} AND status = ANY(${statuses}::"RunStatus"[]) AND (${attempt}::int IS NULL OR attempt = ${attempt}::int)
      AND (NOT ${isOverdue} OR "deadlineAt" <= now())
    RETURNING *`
  return run ?? null
}

/**
 * Returns assignments for a fenced write. They complete the run if it satisfies the condition, and otherwise change
 * nothing. `OFFSET 0` makes PostgreSQL evaluate the condition once instead of once per column.
 */
export function completeIfSql({ status, stopReason, summary }: Completion, condition: Prisma.Sql): Prisma.Sql {
  return Prisma.sql`
    (status, "finishedAt", "stopReason", summary, "claimableAt", "deadlineAt") = (
      SELECT CASE WHEN alone THEN ${status}::"RunStatus" ELSE status END, CASE WHEN alone THEN now() END,
        CASE WHEN alone THEN ${stopReason}::"RunStopReason" END, CASE WHEN alone THEN coalesce(${summary}, summary) ELSE summary END,
        CASE WHEN NOT alone THEN "claimableAt" END, CASE WHEN NOT alone THEN "deadlineAt" END
      FROM (SELECT ${condition} AS alone OFFSET 0) e)`
}

export async function setSummary(tx: Tx, id: string, summary: string | null): Promise<void> {
  await tx.run.update({ where: { id }, data: { summary } })
}

/** Adds a run to the chain that starts at the end of this run. */
export async function setChain(tx: Tx, id: string, chainId: string): Promise<void> {
  await tx.run.update({ where: { id }, data: { chainId } })
}

/** The time columns of a run, which are strings in JSON. */
const TIMES = {
  usageDay: true,
  claimableAt: true,
  leaseUntil: true,
  deadlineAt: true,
  queuedAt: true,
  startedAt: true,
  finishedAt: true,
} satisfies Record<TimesOf<Run>, true>

type TimesOf<Row> = { [Field in keyof Row]-?: NonNullable<Row[Field]> extends Date ? Field : never }[keyof Row]

/** Converts a run's row from JSON. */
export function runOfJson(row: Run): Run {
  const times = Object.keys(TIMES).map((field) => {
    const time = row[field as keyof typeof TIMES]
    return [field, time === null ? null : new Date(time)]
  })
  return { ...row, ...Object.fromEntries(times) }
}

/**
 * Makes a new run continue a journal with this number of steps. Marks the run as claimed before, so that the next
 * worker reads the journal. If the run has messages, records that it has posted in the space.
 */
export async function beginAt(
  tx: Tx,
  runId: string,
  { stepCount, spaceId }: { stepCount: number; spaceId: string },
): Promise<void> {
  await tx.$executeRaw`UPDATE "Run" SET attempt = 1, "stepCount" = ${stepCount}::int WHERE id = ${runId}`
  await tx.$executeRaw`
    INSERT INTO "RunSpace" ("runId", "spaceId") SELECT ${runId}, ${spaceId}
    WHERE EXISTS (SELECT 1 FROM "Message" WHERE "runId" = ${runId})`
}
