import { Prisma } from '../generated/prisma/client.ts'
import { sleep } from '../lib/async.ts'
import { UNCLAIMED_RUNS_SQL } from '../stores/status-sql.ts'
import type { World } from './world.ts'

/** If nothing happens for this long, the replay is considered unable to follow the recording. */
const STALL_MS = 1200
const LONGEST_WAIT_MS = 30_000
/** How often the database is checked for activity while no part of the engine reaches a gate. */
const POLL_MS = 5
/** A run that can be claimed within this time is considered active. */
const SOON = Prisma.sql`interval '50 milliseconds'`

/**
 * Waits until a part of the engine reaches a gate, and releases it. Returns null if it has released the gate, and
 * `otherwise` if no part reached it.
 */
export async function passGate(world: World, gate: () => string, otherwise: string): Promise<string | null> {
  return (await waitFor(world, async () => world.gates.release(gate()))) ? null : otherwise
}

/** Waits for a condition as long as the engine is working. */
export async function waitFor(world: World, isSo: () => Promise<boolean>): Promise<boolean> {
  const startedAt = performance.now()
  let quietSince: number | null = null
  for (;;) {
    const reached = world.gates.reached()
    if (await isSo()) return true
    const at = performance.now()
    quietSince = (await isQuiet(world)) ? (quietSince ?? at) : null
    if (quietSince !== null && at - quietSince > STALL_MS) return false
    if (at - startedAt > LONGEST_WAIT_MS) return false
    await Promise.race([reached, sleep(POLL_MS)])
  }
}

/** Waits until there is no activity in the engine. */
export async function waitUntilQuiet(world: World): Promise<void> {
  const until = performance.now() + LONGEST_WAIT_MS
  for (;;) {
    const reached = world.gates.reached()
    if ((await isQuiet(world)) || performance.now() > until) return
    await Promise.race([reached, sleep(POLL_MS)])
  }
}

/**
 * The runs, the agents with events, and the runs with approved calls that are being executed. All of these can be
 * active.
 */
interface Moving {
  runs: { id: string; agentId: string; mayWait: boolean }[]
  thinkers: string[]
  approved: string[]
}

/**
 * A run can wait without any activity if one of its calls waits for a message, or if its agent has reached its limit of
 * concurrent runs.
 */
const MOVING = Prisma.sql`SELECT
  (SELECT coalesce(jsonb_agg(jsonb_build_object('id', r.id, 'agentId', r."agentId", 'mayWait', CASE r.status
      WHEN 'RUNNING' THEN EXISTS (SELECT 1 FROM "ToolCall" c
        WHERE c."runId" = r.id AND c.status = 'WAITING' AND c."approvalState" IS NULL AND c.execution IS NULL)
      WHEN 'QUEUED' THEN (SELECT count(*) >= greatest(a."maxConcurrentRuns", 1) FROM "Run" o
        WHERE o."agentId" = a.id AND o.status = 'RUNNING')
      ELSE false END)), '[]')
    FROM "Run" r JOIN "Agent" a ON a.id = r."agentId"
    WHERE r.status = 'RUNNING' OR (r.status IN ${UNCLAIMED_RUNS_SQL} AND r."claimableAt" <= clock_timestamp() + ${SOON})) AS runs,
  ARRAY(SELECT DISTINCT e."agentId" FROM "InboxEvent" e
    WHERE e."doneAt" IS NULL AND e."runId" IS NULL AND NOT e.quiet AND e."waitsUntil" IS NULL AND e."retryAt" IS NULL) AS thinkers,
  ARRAY(SELECT DISTINCT c."runId" FROM "ToolCall" c WHERE c."carryAt" IS NOT NULL AND c."settledAt" IS NULL) AS approved`

/** Whether every run has ended, is waiting, or is stopped at a gate. */
async function isQuiet({ app, gates, isFree, thinking }: World): Promise<boolean> {
  const [moving] = await app.platform.db.query<Moving>(MOVING)
  if (moving === undefined) return true
  const { runs, thinkers, approved } = moving
  const cycling = new Set(runs.map(({ agentId }) => agentId))
  return (
    approved.every(gates.isHeld) &&
    runs.every(({ id, mayWait }) => mayWait || gates.isHeld(id)) &&
    thinkers.every((agentId) => cycling.has(agentId) || !(isFree || thinking.has(agentId)))
  )
}
