import type { Provenance } from '../confidentiality/marks.ts'
import { Prisma, type Run, type RunStatus } from '../generated/prisma/client.ts'
import { runIdAt } from '../lib/ids.ts'
import type { Tx } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'
import { ACTIVE_RUN_STATUSES } from '../rules/statuses.ts'
import { parkRunsSql, type Taker, takeRunsSql } from '../stores/run-store.ts'
import { ACTIVE_RUNS_SQL, IS_ACTIVE_CYCLE_SQL, UNCLAIMED_RUNS_SQL } from '../stores/status-sql.ts'

/** The row of a run that a worker executes. */
export type ClaimedRun = Readonly<Omit<Run, keyof Provenance>> & Provenance

/** A run leased by a worker. Every write names the attempt, and is refused after a later claim, a stop or an end. */
export interface Claim {
  readonly run: ClaimedRun
  readonly attempt: number
  /** The first claim; a claim after the calls got their results; or a claim after a worker has died or released the run. */
  readonly kind: 'started' | 'resumed' | 'taken-over'
}

export interface Claimed {
  claims: Claim[]
  /** Persistent agents whose inbox is next, oldest event first; the caller begins their cycles. */
  inboxes: string[]
  /** Whether rows were skipped because another transaction had locked them: then retry very soon. */
  isMoreThere: boolean
  /** Set if runs were left because this process or their agent had no free slot: then retry when a run ends. */
  isLeft?: true
}

/** Condition: nobody has claimed the inbox event, and the event justifies a cycle. Must match the partial index. */
const IS_WAITING = Prisma.sql`e."doneAt" IS NULL AND e."runId" IS NULL AND e."waitsUntil" IS NULL AND NOT e.quiet`

/** Condition: the agent `a` is not paused, and is not in the pause after a cycle, or has an urgent event. */
export const MAY_THINK = Prisma.sql`NOT a.paused AND (a."restsUntil" IS NULL OR a."restsUntil" <= clock_timestamp() OR EXISTS (
  SELECT 1 FROM "InboxEvent" e WHERE e."agentId" = a.id AND e.urgent AND ${IS_WAITING}))`

/** Few runs have to be resumed, and they are older than new runs, so each status has a separate query. */
const [QUEUED, RUNNING, WAITING] = ACTIVE_RUN_STATUSES.map((status) => Prisma.raw(`'${status}'`))
const GOING_ON = [RUNNING, WAITING]
const CLAIMED_FROM = [...GOING_ON, QUEUED]

/** The earliest claimable run of each status. An inbox has no time, so it is always due. */
export const CLAIMABLE = {
  runs: Prisma.join(
    CLAIMED_FROM.map(
      (
        status,
      ) => Prisma.sql`(SELECT id, "claimableAt" AS at FROM "Run" WHERE status = ${status} AND "claimableAt" IS NOT NULL
        ORDER BY "claimableAt" LIMIT 1)`,
    ),
    ' UNION ALL ',
  ),
  inboxes: Prisma.sql`SELECT e."agentId" AS id, '-infinity'::timestamptz AS at FROM "InboxEvent" e WHERE ${IS_WAITING} LIMIT 1`,
}

/** Agents at their limit of running runs, in this snapshot. Their queued runs need not be looked up. */
const FULL_AGENTS = Prisma.sql`
  SELECT x."agentId" FROM "Run" x JOIN "Agent" a ON a.id = x."agentId" WHERE x.status = 'RUNNING'
  GROUP BY a.id, x."agentId" HAVING count(*) >= a."maxConcurrentRuns"`

/** Whether such an agent has a claimable run. */
const FULL_AGENTS_WAIT = Prisma.sql`EXISTS (SELECT 1 FROM "full" f WHERE EXISTS (
  SELECT 1 FROM "Run" w WHERE w."agentId" = f."agentId" AND w.status IN ${UNCLAIMED_RUNS_SQL} AND w."claimableAt" <= now()))`

/** The persistent agents with waiting events, each with its oldest one: a loose index scan, one step per agent. */
const INBOXES = Prisma.sql`
  (SELECT e."agentId", e.id AS "eventId" FROM "InboxEvent" e WHERE ${IS_WAITING} ORDER BY e."agentId", e.id LIMIT 1)
  UNION ALL
  SELECT next.* FROM inbox i CROSS JOIN LATERAL (
    SELECT e."agentId", e.id FROM "InboxEvent" e WHERE ${IS_WAITING} AND e."agentId" > i."agentId"
    ORDER BY e."agentId", e.id LIMIT 1) next`

/**
 * The requester of a run `r`: the human who sent its root, the service that triggered it, or the
 * agent that made the plan.
 */
const ASKER = Prisma.sql`coalesce(
  CASE WHEN r.depth = 0 THEN coalesce(r."triggerSenderId", r."triggerServiceId")
    ELSE (SELECT m."senderId" FROM "Message" m WHERE m.id = r."rootId") END, r."agentId")`

/** Older runs do not count towards fairness. */
const RECENTLY_MS = 10 * 60_000
/** The number of queued runs to consider. The first ones may all have the same requester. */
const QUEUE_LOOK = 2000

/**
 * Orders queued runs of an agent with several requesters: first the requester with the fewest
 * running runs, then the one whose last run began longest ago.
 */
const FAIR = (most: number, since: string) => Prisma.sql`
  SELECT f.*, f.nth + (SELECT count(*) FROM "Run" r
      WHERE f.askers > 1 AND r."agentId" = f."agentId" AND r.status = 'RUNNING' AND ${ASKER} = f.asker) AS place,
    (SELECT max(r."startedAt") FROM "Run" r
      WHERE f.askers > 1 AND r."agentId" = f."agentId" AND r.id > ${since} AND ${ASKER} = f.asker) AS "lastAt"
  FROM (
    SELECT n.*, max(n."askerNumber") OVER (PARTITION BY n."agentId") AS askers FROM (
      SELECT w.*, row_number() OVER (PARTITION BY w."agentId", w.asker ORDER BY w.turn, w.id) AS nth,
        dense_rank() OVER (PARTITION BY w."agentId" ORDER BY w.asker) AS "askerNumber"
      FROM (
        SELECT r.id, r."agentId", r.status, r."queuedAt" AS turn, ${ASKER} AS asker FROM "Run" r
        WHERE r.status = 'QUEUED' AND r."claimableAt" <= now() AND (r."deadlineAt" IS NULL OR r."deadlineAt" > now())
          AND r."agentId" NOT IN (SELECT "agentId" FROM "full")
        ORDER BY r."claimableAt" LIMIT ${QUEUE_LOOK}
      ) w
    ) n
  ) f WHERE f.nth <= ${most}`

/**
 * Defines the order of claims. Resumed runs come before new ones, by age. Among new runs, the runs of the
 * requester with the fewest running runs of the agent come first, so that many runs of one requester do
 * not block the first run of another.
 */
const QUEUE = (most: number, since: string) => Prisma.sql`
  SELECT * FROM (
    ${Prisma.join(
      GOING_ON.map(
        (status) => Prisma.sql`
    (SELECT r.id, r."agentId", r.status, r."queuedAt" AS turn, 0::bigint AS place, NULL::timestamptz AS "lastAt" FROM "Run" r
      WHERE r.status = ${status} AND r."claimableAt" <= now()
        AND (r."deadlineAt" IS NULL OR r."deadlineAt" > now())
        AND (r.status = 'RUNNING' OR r."agentId" NOT IN (SELECT "agentId" FROM "full"))
      ORDER BY r."claimableAt" LIMIT ${LOOK_AHEAD * most})`,
      ),
      ' UNION ALL ',
    )}
    UNION ALL
    (SELECT f.id, f."agentId", f.status, f.turn, f.place, f."lastAt" FROM (${FAIR(most, since)}) f
      ORDER BY f.place, f."lastAt" NULLS FIRST, f.turn LIMIT ${LOOK_AHEAD * most})
    UNION ALL
    (SELECT NULL, i."agentId", NULL, e."createdAt", 1, NULL FROM inbox i
      JOIN "Agent" a ON a.id = i."agentId" AND a.mind = 'PERSISTENT' AND ${MAY_THINK} JOIN "InboxEvent" e ON e.id = i."eventId"
      WHERE NOT EXISTS (SELECT 1 FROM "Run" r
        WHERE r."agentId" = i."agentId" AND ${IS_ACTIVE_CYCLE_SQL})
      ORDER BY e.id LIMIT ${most})
  ) q`

/** Consider this many times more runs than there are slots: many may belong to one agent that is at its limit. */
const LOOK_AHEAD = 4

/**
 * Claims the next runs, at most `most` including the returned inboxes, in one statement. Skips rows
 * that another transaction has locked. Counts an agent's runs under its row lock, so that
 * `maxConcurrentRuns` holds across processes; a run taken over from a dead worker already has its
 * slot. If the agent of a run was paused without the transaction that queued the run seeing it,
 * parks the run until the agent is resumed.
 */
export async function claimNext(platform: Platform, most: number): Promise<Claimed> {
  const taker = takerOf(platform)
  const rows = await platform.db.query<ClaimRow>(Prisma.sql`
    WITH RECURSIVE inbox AS (${INBOXES}), "full" AS MATERIALIZED (${FULL_AGENTS}), queue AS MATERIALIZED (${QUEUE(most, runIdAt(Date.now() - RECENTLY_MS))}), agents AS MATERIALIZED (
      SELECT a.id, a.paused, a."maxConcurrentRuns" AS most FROM "Agent" a WHERE a.id IN (SELECT "agentId" FROM queue WHERE id IS NOT NULL)
      FOR NO KEY UPDATE SKIP LOCKED
    ), places AS MATERIALIZED (
      SELECT id, paused, most - "executingRuns"(id) AS free FROM agents
    ), ranked AS (
      SELECT q.*, p.free, p.paused AND q.status = 'QUEUED' AS waits, row_number() OVER (PARTITION BY q."agentId", q.status = 'RUNNING' ORDER BY q.place, q."lastAt" NULLS FIRST, q.turn, q.id) AS rank
      FROM queue q LEFT JOIN places p ON p.id = q."agentId" WHERE q.id IS NULL OR p.id IS NOT NULL
    ), next AS MATERIALIZED (
      SELECT * FROM ranked WHERE id IS NULL OR status = 'RUNNING' OR (rank <= free AND NOT waits) ORDER BY place, "lastAt" NULLS FIRST, turn, id LIMIT ${most}
    ), held AS MATERIALIZED (
      SELECT r.id, r.status AS "statusBefore" FROM "Run" r
      WHERE r.id IN (SELECT id FROM next) AND r."claimableAt" <= now() AND r.status IN ${ACTIVE_RUNS_SQL}
      FOR NO KEY UPDATE SKIP LOCKED
    ), claimed AS (
      ${takeRunsSql(taker, Prisma.sql`FROM held WHERE r.id = held.id`)} RETURNING r.*, held."statusBefore"
    ), parked AS (
      ${parkRunsSql(Prisma.sql`SELECT id FROM ranked WHERE waits`)}
    ), inboxes AS (
      SELECT "agentId" AS inbox FROM next WHERE id IS NULL
    )
    SELECT rest.*, i.inbox, c.* FROM (
      SELECT (SELECT count(*) FROM queue q WHERE q.id IS NOT NULL AND q."agentId" NOT IN (SELECT id FROM agents))
        + (SELECT count(*) FROM next WHERE id IS NOT NULL) - (SELECT count(*) FROM held) > 0 AS "isMoreThere",
        (SELECT count(*) FROM queue WHERE id IS NOT NULL) > (SELECT count(*) FROM held) OR ${FULL_AGENTS_WAIT} AS "isLeft"
    ) rest LEFT JOIN (claimed c FULL JOIN inboxes i ON i.inbox = c.id) ON true`)
  const [rest] = rows
  return {
    claims: rows.flatMap(claimOf).sort((a, b) => (a.run.id < b.run.id ? -1 : 1)),
    inboxes: rows.flatMap(({ inbox }) => inbox ?? []),
    isMoreThere: rest?.isMoreThere === true,
    ...(rest?.isLeft === true && !rest.isMoreThere ? { isLeft: true } : {}),
  }
}

/** Claims a run that this transaction wrote. */
export async function claimNew(tx: Tx, platform: Platform, runId: string): Promise<Claim> {
  const [run] = await tx.$queryRaw<
    Run[]
  >`${takeRunsSql(takerOf(platform), Prisma.sql`WHERE id = ${runId}`)} RETURNING r.*`
  if (run === undefined) throw new Error(`There is no run ${runId} to claim.`)
  return { run, attempt: run.attempt, kind: 'started' }
}

const takerOf = ({ worker, config }: Platform): Taker => ({ worker, maxRunSeconds: config.limits.maxRunSeconds })

type ClaimRow = { isMoreThere: boolean; isLeft: boolean; inbox: string | null } & (
  | (Run & { statusBefore: RunStatus })
  | { id: null; statusBefore: null }
)

const KINDS: Partial<Record<RunStatus, Claim['kind']>> = { QUEUED: 'started', RUNNING: 'taken-over' }

function claimOf({ isMoreThere, isLeft, inbox, statusBefore, ...run }: ClaimRow): Claim[] {
  if (run.id === null || statusBefore === null) return []
  return [{ run: run as Run, attempt: (run as Run).attempt, kind: KINDS[statusBefore] ?? 'resumed' }]
}
