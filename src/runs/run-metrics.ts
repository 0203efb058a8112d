import { Gauge } from 'prom-client'
import type { Run } from '../generated/prisma/client.ts'
import { sleep } from '../lib/async.ts'
import { messageOf } from '../lib/errors.ts'
import { atMost, counter, OTHER } from '../lib/metrics.ts'
import type { Platform } from '../platform/platform.ts'
import { ACTIVE_RUN_STATUSES } from '../rules/statuses.ts'
import { ACTIVE_RUNS_SQL } from '../stores/status-sql.ts'

/**
 * How many agents have their own label in the metrics of active runs. These are the agents with the most active runs.
 */
const MOST_LIVING_AGENTS = 20
/**
 * How many agents have their own label in the metric of ended runs. These are the first agents whose runs this process
 * ends.
 */
const MOST_ENDING_AGENTS = 200
/** How long scrapes share a result. */
const FRESH_MS = 1000
const TIMEOUT_MS = 2000

type FigurePlatform = Pick<Platform, 'db' | 'metrics' | 'logger'>

/** Counts the runs that this process ends. */
export function createEndCounter({
  metrics,
}: Pick<Platform, 'metrics'>): (run: Pick<Run, 'status' | 'stopReason' | 'agentId'>) => void {
  const ended = counter(
    metrics,
    'parley_runs_ended_total',
    'Runs ended by this process, by status, reason and agent (the first 200 agents; the rest as other).',
    ['status', 'reason', 'agent'],
  )
  const agentOf = atMost(MOST_ENDING_AGENTS)
  return (run) => ended.inc({ status: run.status, reason: run.stopReason ?? 'FINISHED', agent: agentOf(run.agentId) })
}

interface Row {
  status: string
  agent: string
  runs: number
  oldestSeconds: number | null
  inboxSeconds: number | null
}

/**
 * Reports metrics of active runs, read from the database. Every process reports the same values, so aggregate them
 * by maximum, not by sum. Executes at most one statement a second, and only when scraped.
 */
export function watchLivingRuns({ db, metrics, logger }: FigurePlatform): void {
  const readAnew = () =>
    readLiving(db).catch((error) => {
      logger.warn({ error: messageOf(error) }, 'could not count active runs')
      return null
    })
  const read = keptFor(FRESH_MS, readAnew)
  const figure = <Label extends string>(
    name: string,
    help: string,
    labelNames: readonly Label[],
    show: (gauge: Gauge<Label>, rows: Row[] | null) => void,
  ) => {
    const gauge = new Gauge({
      name,
      help,
      labelNames,
      registers: [metrics],
      async collect() {
        const rows = await read()
        gauge.reset()
        show(gauge, rows)
      },
    })
  }
  figure('parley_database_up', 'Whether the database responds to this process within 2 s.', [], (gauge, rows) =>
    gauge.set(rows === null ? 0 : 1),
  )
  figure(
    'parley_runs',
    'Active runs, by status and agent (the 20 agents with the most; the rest as other).',
    ['status', 'agent'],
    (gauge, rows) => {
      for (const status of ACTIVE_RUN_STATUSES) gauge.set({ status, agent: OTHER }, 0)
      for (const { status, agent, runs } of rows ?? []) if (runs > 0) gauge.set({ status, agent }, runs)
    },
  )
  figure(
    'parley_oldest_queued_run_seconds',
    'Age of the oldest claimable run that waits for a worker, excluding runs of paused agents.',
    [],
    (gauge, rows) => gauge.set(Math.max(0, ...(rows ?? []).map(({ oldestSeconds }) => oldestSeconds ?? 0))),
  )
  figure(
    'parley_oldest_inbox_event_seconds',
    'Age of the oldest inbox event that no think cycle has claimed, excluding events of paused agents.',
    [],
    (gauge, rows) => gauge.set(Math.max(0, ...(rows ?? []).map(({ inboxSeconds }) => inboxSeconds ?? 0))),
  )
}

/** Reads the active runs. Returns null if the database does not respond in time. */
function readLiving(db: Platform['db']): Promise<Row[] | null> {
  const rows = db.prisma.$queryRaw<Row[]>`
    WITH living AS (
      SELECT status, "agentId", count(*) AS runs, min("queuedAt") FILTER (WHERE status = 'QUEUED' AND "claimableAt" <= now()) AS oldest
      FROM "Run" WHERE status IN ${ACTIVE_RUNS_SQL} GROUP BY status, "agentId"
    ), shown AS (
      SELECT "agentId" FROM living GROUP BY "agentId" ORDER BY sum(runs) DESC, "agentId" LIMIT ${MOST_LIVING_AGENTS}
    )
    SELECT l.status::text, coalesce(s."agentId", 'other') AS agent, sum(l.runs)::int AS runs,
      extract(epoch FROM now() - min(l.oldest))::float8 AS "oldestSeconds", NULL::float8 AS "inboxSeconds"
    FROM living l LEFT JOIN shown s USING ("agentId") GROUP BY 1, 2
    UNION ALL
    SELECT 'INBOX', '', 0, NULL, extract(epoch FROM now() - min(e."createdAt"))::float8
    FROM "InboxEvent" e JOIN "Agent" a ON a.id = e."agentId"
    WHERE e."doneAt" IS NULL AND e."runId" IS NULL AND e."waitsUntil" IS NULL AND NOT e.quiet AND NOT a.paused`
  return Promise.race([rows, sleep(TIMEOUT_MS).then(() => null)])
}

/** Caches the result of `read` for `ms`, counted from the start of the call. */
function keptFor<T>(ms: number, read: () => Promise<T>): () => Promise<T> {
  let kept: { at: number; value: Promise<T> } | null = null
  return () => {
    if (kept === null || performance.now() - kept.at > ms) kept = { at: performance.now(), value: read() }
    return kept.value
  }
}
