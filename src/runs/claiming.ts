import { Prisma, type Run, type RunStatus } from '../generated/prisma/client.ts'
import { runIdAt } from '../lib/ids.ts'
import type { Tx } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'

/** A run in the hands of a worker. Every write names the attempt; a later claim, a stop or an end makes it refused. */
export interface Claim {
  run: Run
  attempt: number
  /** First time, after its tools were answered, or from a worker that died or gave it back. */
  kind: 'started' | 'resumed' | 'taken-over'
}

export interface Claimed {
  claims: Claim[]
  /** Persistent agents whose inbox is next, oldest event first: their cycles are to be begun. */
  inboxes: string[]
  /** Something was passed over because another transaction had it in hand: worth a look very soon. */
  isMoreThere: boolean
  /** Something else was left, for want of a place here or of its agent's: worth a look when a run is over. */
  isLeft?: true
}

/** A claim lasts for so long without being renewed, by the database's clock. */
export const LEASE = Prisma.sql`interval '10 seconds'`

/** An inbox event that no cycle has taken: as in the partial index. */
const IS_WAITING = Prisma.sql`e."doneAt" IS NULL AND e."runId" IS NULL AND e."waitsUntil" IS NULL`

/** An agent `a` that is not paused, and does not rest after a cycle, or that something urgent waits for. */
export const MAY_THINK = Prisma.sql`NOT a.paused AND (a."restsUntil" IS NULL OR a."restsUntil" <= clock_timestamp() OR EXISTS (
  SELECT 1 FROM "InboxEvent" e WHERE e."agentId" = a.id AND e.urgent AND ${IS_WAITING}))`

/** Those that go on are few, and older than those that are new: each is looked for by itself. */
const [RUNNING, WAITING, QUEUED] = ['RUNNING', 'WAITING_TOOL', 'QUEUED'].map((status) => Prisma.raw(`'${status}'`))
const GOING_ON = [RUNNING, WAITING]
const CLAIMED_FROM = [...GOING_ON, QUEUED]

/** From when on something may be claimed: the first run of each kind; an inbox has no time, only its turn. */
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

/** Agents that execute as many runs as they may, as far as this statement sees: their queued runs need no look. */
const FULL_AGENTS = Prisma.sql`
  SELECT x."agentId" FROM "Run" x JOIN "Agent" a ON a.id = x."agentId" WHERE x.status = 'RUNNING'
  GROUP BY a.id, x."agentId" HAVING count(*) >= a."maxConcurrentRuns"`

/** Whether such an agent has a run that could begin or go on. */
const FULL_AGENTS_WAIT = Prisma.sql`EXISTS (SELECT 1 FROM "full" f WHERE EXISTS (
  SELECT 1 FROM "Run" w WHERE w."agentId" = f."agentId" AND w.status IN ('QUEUED', 'WAITING_TOOL') AND w."claimableAt" <= now()))`

/** Each persistent agent with a waiting event and no living cycle, by the oldest: one step of an index for each. */
const INBOXES = Prisma.sql`
  (SELECT e."agentId", e.id AS "eventId" FROM "InboxEvent" e WHERE ${IS_WAITING} ORDER BY e."agentId", e.id LIMIT 1)
  UNION ALL
  SELECT next.* FROM inbox i CROSS JOIN LATERAL (
    SELECT e."agentId", e.id FROM "InboxEvent" e WHERE ${IS_WAITING} AND e."agentId" > i."agentId"
    ORDER BY e."agentId", e.id LIMIT 1) next`

/** Who is behind a run `r`: its root's human, the service that called, or the agent whose plan it is. */
const ASKER = Prisma.sql`coalesce(
  CASE WHEN r.depth = 0 THEN coalesce(r."triggerSenderId", r."triggerServiceId")
    ELSE (SELECT m."senderId" FROM "Message" m WHERE m.id = r."rootId") END, r."agentId")`

/** Runs that began so long ago say nothing of whose turn it is. */
const RECENTLY_MS = 10 * 60_000
/** So many queued runs are looked at, where those of one asker may be all that stand first. */
const QUEUE_LOOK = 2000

/** Of queued runs of an agent that several wait for: the fewest at work for who asked, then whose last one began longest ago. */
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
 * The one place that says whose turn it is. What goes on comes before what is new, by age; of what is new, whose asker has the fewest
 * runs at work with the agent, so that many of one do not stand before another's first.
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
        WHERE r."agentId" = i."agentId" AND r."triggerType" = 'INBOX' AND r.status IN ('QUEUED', 'RUNNING', 'WAITING_TOOL'))
      ORDER BY e.id LIMIT ${most})
  ) q`

/** So many more runs than there is room for are looked at: those of one agent may be more than it may execute. */
const LOOK_AHEAD = 4

/** What a claim changes. A run's time begins with its first claim, and goes on where it was held. */
const taken = ({ worker, config }: Platform) => Prisma.sql`
  status = 'RUNNING', attempt = r.attempt + 1, "fruitlessAttempts" = r."fruitlessAttempts" + 1, "claimableAt" = NULL,
  worker = ${worker}, "reservedTokens" = 0, "reservedNanos" = 0, "leaseUntil" = clock_timestamp() + ${LEASE}, "startedAt" = coalesce(r."startedAt", now()), "timeLeftMs" = NULL,
  "deadlineAt" = coalesce(r."deadlineAt", now() + r."timeLeftMs" * interval '1 millisecond',
    coalesce(r."startedAt", now()) + ${config.limits.maxRunSeconds} * interval '1 second')`

/**
 * Takes the next runs, at most `most` together with the inboxes that are named, in one statement. It waits for nobody: rows that
 * another transaction has locked are passed over. An agent's runs are counted under its row lock, so that `maxConcurrentRuns` is
 * exact over all processes; one that executes already, and lost its worker, has its place. What was QUEUED by a transaction that did
 * not see its agent being paused is put to those that wait for it to go on.
 */
export async function claimNext(platform: Platform, most: number): Promise<Claimed> {
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
      WHERE r.id IN (SELECT id FROM next) AND r."claimableAt" <= now() AND r.status IN ('QUEUED', 'WAITING_TOOL', 'RUNNING')
      FOR NO KEY UPDATE SKIP LOCKED
    ), claimed AS (
      UPDATE "Run" r SET ${taken(platform)} FROM held WHERE r.id = held.id
      RETURNING r.*, held."statusBefore"
    ), parked AS (
      UPDATE "Run" SET "claimableAt" = NULL WHERE id IN (
        SELECT id FROM "Run" WHERE id IN (SELECT id FROM ranked WHERE waits) AND status = 'QUEUED' FOR NO KEY UPDATE SKIP LOCKED)
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

/** Takes a run that was written in this transaction. */
export async function claimNew(tx: Tx, platform: Platform, runId: string): Promise<Claim> {
  const [run] = await tx.$queryRaw<Run[]>`
    UPDATE "Run" r SET ${taken(platform)} WHERE id = ${runId} RETURNING r.*`
  if (run === undefined) throw new Error(`There is no run ${runId} to claim.`)
  return { run, attempt: run.attempt, kind: 'started' }
}

type ClaimRow = { isMoreThere: boolean; isLeft: boolean; inbox: string | null } & (
  | (Run & { statusBefore: RunStatus })
  | { id: null; statusBefore: null }
)

const KINDS: Partial<Record<RunStatus, Claim['kind']>> = { QUEUED: 'started', RUNNING: 'taken-over' }

function claimOf({ isMoreThere, isLeft, inbox, statusBefore, ...run }: ClaimRow): Claim[] {
  if (run.id === null || statusBefore === null) return []
  return [{ run: run as Run, attempt: (run as Run).attempt, kind: KINDS[statusBefore] ?? 'resumed' }]
}
