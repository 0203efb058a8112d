import type { Provenance } from '../confidentiality/marks.ts'
import { Prisma, type Run, type RunStatus } from '../generated/prisma/client.ts'
import type { Tx } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'
import { ACTIVE_RUN_STATUSES } from '../rules/statuses.ts'
import { parkRunsSql, type Taker, takeRunsSql } from '../stores/run-store.ts'
import { ACTIVE_RUNS_SQL, IS_ACTIVE_CYCLE_SQL, UNCLAIMED_RUNS_SQL } from '../stores/status-sql.ts'

/** The row of a run that a worker executes. */
export type ClaimedRun = Readonly<Omit<Run, keyof Provenance>> & Provenance

/**
 * A run leased by a worker. Every write contains the attempt, and fails if the run was claimed again, was stopped, or
 * has ended.
 */
export interface Claim {
  readonly run: ClaimedRun
  readonly attempt: number
  /**
   * `started`: the first claim. `resumed`: a claim after the run's calls got their results. `taken-over`: a claim after
   * a worker died or released the run.
   */
  readonly kind: 'started' | 'resumed' | 'taken-over'
}

export interface Claimed {
  claims: Claim[]
  /** The persistent agents whose inboxes are next, ordered by their oldest events. The caller starts their cycles. */
  inboxes: string[]
  /**
   * Whether rows were skipped because another transaction had locked them. The next claim should then follow very soon.
   */
  isMoreThere: boolean
  /**
   * Set if runs remain because this process or their agent has no free slot. The next claim should then follow when a
   * run ends.
   */
  isLeft?: true
}

/**
 * Condition: no cycle has claimed the inbox event, and the event can start a cycle. It must match the partial index.
 */
const IS_WAITING = Prisma.sql`e."doneAt" IS NULL AND e."runId" IS NULL AND e."waitsUntil" IS NULL AND NOT e.quiet`

/** Condition: the agent `a` is not paused. It is also not in the pause after a cycle, unless it has an urgent event. */
export const MAY_THINK = Prisma.sql`NOT a.paused AND (a."restsUntil" IS NULL OR a."restsUntil" <= clock_timestamp() OR EXISTS (
  SELECT 1 FROM "InboxEvent" e WHERE e."agentId" = a.id AND e.urgent AND ${IS_WAITING}))`

/** The statuses of claimable runs as SQL literals, so that the condition matches that of a partial index. */
const CLAIMED_FROM = ACTIVE_RUN_STATUSES.map((status) => Prisma.raw(`'${status}'`))

/**
 * Selects the earliest claimable run of each status, and the earliest inbox. An inbox has no due time, so it is always
 * due.
 */
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

/**
 * Selects the agents that have reached their limit of running runs in this snapshot. Their queued runs are not looked
 * up.
 */
const FULL_AGENTS = Prisma.sql`
  SELECT x."agentId" FROM "Run" x JOIN "Agent" a ON a.id = x."agentId" WHERE x.status = 'RUNNING'
  GROUP BY a.id, x."agentId" HAVING count(*) >= a."maxConcurrentRuns"`

/** Whether an agent at its limit has a claimable run. */
const FULL_AGENTS_WAIT = Prisma.sql`EXISTS (SELECT 1 FROM "full" f WHERE EXISTS (
  SELECT 1 FROM "Run" w WHERE w."agentId" = f."agentId" AND w.status IN ${UNCLAIMED_RUNS_SQL} AND w."claimableAt" <= now()))`

/**
 * Selects the persistent agents with waiting events, each with its oldest event. Uses a loose index scan, with one step
 * per agent.
 */
const INBOXES = Prisma.sql`
  (SELECT e."agentId", e.id AS "eventId" FROM "InboxEvent" e WHERE ${IS_WAITING} ORDER BY e."agentId", e.id LIMIT 1)
  UNION ALL
  SELECT next.* FROM inbox i CROSS JOIN LATERAL (
    SELECT e."agentId", e.id FROM "InboxEvent" e WHERE ${IS_WAITING} AND e."agentId" > i."agentId"
    ORDER BY e."agentId", e.id LIMIT 1) next`

/**
 * Selects the combinations of requester, agent and status among claimable runs. Uses a loose index scan, with one step
 * per combination, so that many runs of one requester do not hide the runs of others.
 */
const GROUPS = Prisma.sql`
  (SELECT r."requesterId", r."agentId", r.status FROM "Run" r WHERE r."claimableAt" IS NOT NULL
    ORDER BY r."requesterId", r."agentId", r.status LIMIT 1)
  UNION ALL
  SELECT next.* FROM "groups" g CROSS JOIN LATERAL (
    SELECT r."requesterId", r."agentId", r.status FROM "Run" r WHERE r."claimableAt" IS NOT NULL
      AND (r."requesterId", r."agentId", r.status) > (g."requesterId", g."agentId", g.status)
    ORDER BY r."requesterId", r."agentId", r.status LIMIT 1) next`

/**
 * Defines the order of claims. Runs of dead workers come first, because they already have their slots. The others are
 * ordered by the number of runs that their requester would then have running, over all agents. So the first run of one
 * requester does not wait for many runs of another. Among equal numbers, the requester whose last run began longest ago
 * comes first. For the same requester, resumed runs come before new runs, and older runs before newer ones.
 */
const QUEUE = (most: number, recent: readonly string[]) => Prisma.sql`
  SELECT * FROM (
    (SELECT w.id, w."agentId", w.status, w.turn, coalesce(recent.nth, 0) AS "lastTurn",
      CASE WHEN w.status = 'RUNNING' THEN 0 ELSE w.nth + coalesce(busy.runs, 0) END AS place
    FROM (
      SELECT r.*, g."requesterId", row_number() OVER (PARTITION BY g."requesterId" ORDER BY r.status = 'QUEUED', r.turn, r.id) AS nth
      FROM "groups" g CROSS JOIN LATERAL (
        SELECT r.id, r."agentId", r.status, r."queuedAt" AS turn FROM "Run" r
        WHERE r."requesterId" = g."requesterId" AND r."agentId" = g."agentId" AND r.status = g.status
          AND r."claimableAt" <= now() AND (r."deadlineAt" IS NULL OR r."deadlineAt" > now())
        ORDER BY r."claimableAt" LIMIT ${most}) r
      WHERE g.status = 'RUNNING' OR g."agentId" NOT IN (SELECT "agentId" FROM "full")
    ) w
    LEFT JOIN (SELECT "requesterId", count(*) AS runs FROM "Run" WHERE status = 'RUNNING' GROUP BY "requesterId") busy
      ON busy."requesterId" = w."requesterId"
    LEFT JOIN unnest(${[...recent]}::text[]) WITH ORDINALITY AS recent(id, nth) ON recent.id = w."requesterId"
    ORDER BY place, "lastTurn", w.turn LIMIT ${LOOK_AHEAD * most})
    UNION ALL
    (SELECT NULL, i."agentId", NULL, e."createdAt", 0, 1 FROM inbox i
      JOIN "Agent" a ON a.id = i."agentId" AND a.mind = 'PERSISTENT' AND ${MAY_THINK} JOIN "InboxEvent" e ON e.id = i."eventId"
      WHERE NOT EXISTS (SELECT 1 FROM "Run" r
        WHERE r."agentId" = i."agentId" AND ${IS_ACTIVE_CYCLE_SQL})
      ORDER BY e.id LIMIT ${most})
  ) q`

/** The number of candidate runs per free slot, because many runs can belong to an agent that has reached its limit. */
const LOOK_AHEAD = 4

/**
 * Claims the next runs in one statement. Returns at most `most` runs and inboxes in total. Skips rows that another
 * transaction has locked. Counts an agent's runs while it holds the lock of the agent's row, so that
 * `maxConcurrentRuns` applies across processes. (A run that is taken over from a dead worker already has its slot.) If
 * the transaction that queued a run did not see that the agent was paused, the run waits until the agent is resumed.
 * @param recent the requesters whose runs were claimed recently, oldest first
 */
export async function claimNext(platform: Platform, most: number, recent: readonly string[] = []): Promise<Claimed> {
  const taker = takerOf(platform)
  const rows = await platform.db.query<ClaimRow>(Prisma.sql`
    WITH RECURSIVE inbox AS (${INBOXES}), "groups" AS (${GROUPS}), "full" AS MATERIALIZED (${FULL_AGENTS}),
    queue AS MATERIALIZED (${QUEUE(most, recent)}), agents AS MATERIALIZED (
      SELECT a.id, a.paused, a."maxConcurrentRuns" AS most FROM "Agent" a WHERE a.id IN (SELECT "agentId" FROM queue WHERE id IS NOT NULL)
      FOR NO KEY UPDATE SKIP LOCKED
    ), places AS MATERIALIZED (
      SELECT id, paused, most - "executingRuns"(id) AS free FROM agents
    ), ranked AS (
      SELECT q.*, p.free, p.paused AND q.status = 'QUEUED' AS waits, row_number() OVER (PARTITION BY q."agentId", q.status = 'RUNNING' ORDER BY q.place, q."lastTurn", q.turn, q.id) AS rank
      FROM queue q LEFT JOIN places p ON p.id = q."agentId" WHERE q.id IS NULL OR p.id IS NOT NULL
    ), next AS MATERIALIZED (
      SELECT * FROM ranked WHERE id IS NULL OR status = 'RUNNING' OR (rank <= free AND NOT waits) ORDER BY place, "lastTurn", turn, id LIMIT ${most}
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

/** Claims a run that the same transaction has written. */
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

/** How many requesters of recent claims are remembered. */
const MOST_RECENT = 100

/** Returns a function that claims runs for a worker. The function remembers the requesters of recently claimed runs. */
export function createClaims(platform: Platform): (most: number) => Promise<Claimed> {
  let recent: string[] = []
  return async (most) => {
    const claimed = await claimNext(platform, most, recent)
    const served = claimed.claims.map(({ run }) => run.requesterId)
    recent = [...new Set([...served.toReversed(), ...recent.toReversed()])].slice(0, MOST_RECENT).reverse()
    return claimed
  }
}

const KINDS: Partial<Record<RunStatus, Claim['kind']>> = { QUEUED: 'started', RUNNING: 'taken-over' }

function claimOf({ isMoreThere, isLeft, inbox, statusBefore, ...run }: ClaimRow): Claim[] {
  if (run.id === null || statusBefore === null) return []
  return [{ run: run as Run, attempt: (run as Run).attempt, kind: KINDS[statusBefore] ?? 'resumed' }]
}
