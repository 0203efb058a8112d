import { Prisma, type Run, type RunStatus } from '../generated/prisma/client.ts'
import { messageOf } from '../lib/errors.ts'
import type { Tx } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'
import { JOBS_CHANNEL, runTopic } from '../realtime/topics.ts'
import { type Aftermath, endEventOf } from './aftermath.ts'
import { IS_LEFT_TO_OTHERS } from './approval.ts'
import { cascadeOf } from './cascade.ts'
import { type Claim, type Claimed, claimNext } from './claiming.ts'
import { forEach, type Timed } from './due.ts'
import { writeHeld } from './hold.ts'
import { LEASE_END } from './presence.ts'
import { changeOf } from './run-changes.ts'
import { type Completion, completing, outOfTime, type RunEnding, type StopOptions } from './run-ending.ts'
import { ACTIVE_STATUSES } from './runs.ts'
import { createStopSignals, type StopSignals } from './stop-signal.ts'
import { cancelAll } from './tool-calls.ts'

export type { Claim } from './claiming.ts'
export type { Completion, RunEnding } from './run-ending.ts'

/** Why a worker releases a run: it shuts down, the database was away, or an internal error. */
export type HandBackReason = 'handed-over' | 'outage' | 'fault'

export interface LifecycleHooks {
  /** In the transaction that ends a run: updates its chain, its outcome and the inbox. */
  onRunEnded(tx: Tx, run: Run, ending: RunEnding): Promise<RunAftermath>
  /**
   * Condition on a row of "Run": if it completed without a skip, `onRunEnded` would have nothing to
   * do. Keep it in step with `onRunEnded`.
   */
  endsAlone: Prisma.Sql
}

export interface RunAftermath {
  /** The run was rolled back: only its usage and its outcome remain. */
  isErased?: boolean
  afterCommit(): Promise<void>
}

/** The only writer of `Run.status`: every change is a compare-and-set from the allowed statuses. */
export interface Lifecycle {
  /**
   * QUEUED, answered WAITING_TOOL or released RUNNING → RUNNING, at most `most`; also returns the
   * inboxes that are next.
   */
  claim(most: number): Promise<Claimed>
  /** Publishes that a claimed run started or resumed, and cleans up after a dead worker. */
  announce(claim: Claim): Promise<void>
  /**
   * RUNNING → WAITING_TOOL, if at least one of its calls still waits. False: all are answered, so
   * continue.
   * @throws RunLostError
   */
  pause(claim: Claim, waitingIds: string[]): Promise<boolean>
  /**
   * Returns the `sets` for a hold that complete a run with its last step, if its end has no other
   * effects. Otherwise the run stays RUNNING, and `end` must end it.
   */
  completing(ending: Completion): Prisma.Sql
  /** Publishes the end of a run that `completing` has written. */
  completed(claim: Claim): Promise<void>
  /**
   * Ends a run that is RUNNING under this claim. Null: it no longer belongs to this attempt.
   * `isErased`: the run was rolled back.
   */
  end(claim: Claim, ending: RunEnding): Promise<{ isErased?: boolean } | null>
  /** Active and over its time limit → FAILED; aborts its worker. */
  expire(runId: string): Promise<void>
  /** RUNNING with an expired lease: claimable again after a pause; after the third time in a row → FAILED. */
  lapse(runId: string): Promise<void>
  /**
   * Any active status → CANCELED, final when this returns. With `cascade` also stops the runs that
   * it started, even if it has itself ended.
   * @returns the runs that this ended, the run itself first if it was active
   */
  stop(runId: string, options: StopOptions): Promise<Run[]>
  /** QUEUED → CANCELED, for runs whose agent has left the triggering space: of one agent and space, or of all. */
  leave(left: { agentId: string; spaceId: string } | null): Promise<void>
  /**
   * Active → CANCELED, GONE, for runs whose agent was deleted, or whose triggering space was, or a
   * space of an event of their cycle.
   */
  endGone(): Promise<void>
  /** Finishes the cleanup of ended runs whose process died before it. */
  sweep(): Promise<void>
  /**
   * Releases a run that this worker does not finish. After `handed-over` it is claimable at once;
   * else after a pause that doubles until the run makes progress. Only a fault counts as a crash;
   * the third in a row fails the run.
   */
  handBack(claim: Claim, reason: HandBackReason): Promise<void>
  /** The due rows of this module: runs over their time limit, and expired leases. */
  timed: Timed[]
  stopSignals: StopSignals
}

/** Attempts without journaled progress that a run survives. */
const MOST_FRUITLESS_ATTEMPTS = 3
const DIED_TOO_OFTEN = `Workers died ${MOST_FRUITLESS_ATTEMPTS} times in a row without progress on this run.`

export function createLifecycle(platform: Platform, aftermath: Aftermath, hooks: LifecycleHooks): Lifecycle {
  const { db, signals, log, logger, config } = platform
  const stopSignals = createStopSignals(signals)

  async function changed(run: Run): Promise<void> {
    await signals.publish(...changeOf(run), runTopic(run.id))
  }

  async function announce({ run, kind }: Claim): Promise<void> {
    const topic = runTopic(run.id)
    const told =
      kind === 'resumed'
        ? log.append(topic, { type: 'RunResumed' }, { unlessSealed: topic })
        : log.append(topic, { type: 'RunStarted' }, { once: 'started', unlessSealed: topic })
    // Not awaited: the log keeps the order of the calls, so later events of the run come after it.
    told.catch((error) =>
      logger.warn({ runId: run.id, error: messageOf(error) }, 'could not append a run event; dropping it'),
    )
    if (kind === 'taken-over') await aftermath.takeOver(run)
    await changed(run)
  }

  /** Ends a run: the compare-and-set in its transaction, then the cleanup and the events. */
  async function finish(from: EndFrom, ending: RunEnding, alongside?: StopOptions['alongside']) {
    const ended = await db.transaction(async (tx) => {
      const ended = await writeEnd(tx, from, ending, hooks)
      if (ended !== null) await alongside?.(tx)
      return ended
    })
    if (ended === null) return null
    await aftermath.settle(ended.run, ended.isErased ? { type: 'RunCanceled' } : endEventOf(ended.run))
    await ended.afterCommit()
    await changed(ended.run)
    return { ...ended.run, isErased: ended.isErased === true }
  }

  function stopOne(
    runId: string,
    stoppedById: string | null,
    alongside?: StopOptions['alongside'],
  ): Promise<Run | null> {
    const ending: RunEnding = { status: 'CANCELED', stopReason: 'STOPPED', stoppedById }
    return stopSignals.stop(runId, () => finish({ id: runId, statuses: ACTIVE_STATUSES }, ending, alongside))
  }

  async function expire(runId: string): Promise<void> {
    const ending: RunEnding = {
      status: 'FAILED',
      stopReason: 'TIME_LIMIT',
      error: outOfTime(config.limits.maxRunSeconds),
    }
    await stopSignals.stop(runId, () => finish({ id: runId, statuses: ACTIVE_STATUSES, isOverdue: true }, ending))
  }

  async function leave(left: { agentId: string; spaceId: string } | null): Promise<void> {
    const runs = await db.prisma.$queryRaw<{ id: string }[]>`
      SELECT r.id FROM "Run" r WHERE r.status = 'QUEUED' AND r."triggerSpaceId" IS NOT NULL
        AND (${left === null}::boolean OR (r."agentId" = ${left?.agentId ?? ''} AND r."triggerSpaceId" = ${left?.spaceId ?? ''}))
        AND NOT EXISTS (SELECT 1 FROM "Membership" m WHERE m."spaceId" = r."triggerSpaceId" AND m."entityId" = r."agentId")`
    const ending: RunEnding = { status: 'CANCELED', stopReason: 'GONE' }
    for (const { id } of runs) await finish({ id, statuses: ['QUEUED'] }, ending)
  }

  async function endGone(): Promise<void> {
    const runs = await db.prisma.$queryRaw<{ id: string }[]>`
      SELECT r.id FROM "Run" r WHERE r.status = ANY(${ACTIVE_STATUSES}::"RunStatus"[]) AND ${IS_GONE}`
    const ending: RunEnding = { status: 'CANCELED', stopReason: 'GONE' }
    const end = (id: string) => stopSignals.stop(id, () => finish({ id, statuses: ACTIVE_STATUSES }, ending))
    await forEach(
      runs.map(({ id }) => id),
      async (id) => void (await end(id)),
    )
  }

  /** Fails a run after too many crashed attempts. */
  async function giveUp(runId: string, attempt: number): Promise<void> {
    const ending: RunEnding = { status: 'FAILED', stopReason: 'WORKER_LOST', error: DIED_TOO_OFTEN }
    await finish({ id: runId, statuses: ['RUNNING'], attempt }, ending)
  }

  async function lapse(runId: string): Promise<void> {
    const [run] = await db.prisma.$queryRaw<SetBack[]>`
      UPDATE "Run" SET ${setBack('fault')} WHERE id = ${runId} AND ${HAS_LAPSED} RETURNING attempt, "fruitlessAttempts"`
    if (run !== undefined && run.fruitlessAttempts >= MOST_FRUITLESS_ATTEMPTS) await giveUp(runId, run.attempt)
  }

  return {
    async claim(most) {
      const claimed = await claimNext(platform, most)
      if (claimed.claims.length > 0) await platform.racepoint('claimed')
      return claimed
    },
    announce,
    async pause(claim, waitingIds) {
      if (!(await db.transaction((tx) => writePause(tx, claim)))) return false
      const topic = runTopic(claim.run.id)
      await log.append(topic, { type: 'RunWaitingTool', toolCallIds: waitingIds }, { unlessSealed: topic })
      await changed({ ...claim.run, status: 'WAITING_TOOL' })
      return true
    },
    completing: (ending) => completing(ending, hooks.endsAlone),
    async completed(claim) {
      const run: Run = { ...claim.run, status: 'COMPLETED' }
      await Promise.all([aftermath.settle(run, { type: 'RunCompleted' }), changed(run)])
    },
    end: ({ run, attempt }, ending) => finish({ id: run.id, statuses: ['RUNNING'], attempt }, ending),
    async handBack({ run: { id }, attempt }, reason) {
      const [run] = await db.prisma.$queryRaw<SetBack[]>`
        UPDATE "Run" SET ${setBack(reason)}, "leaseUntil" = NULL WHERE id = ${id} AND attempt = ${attempt} AND status = 'RUNNING'
        RETURNING attempt, "fruitlessAttempts"`
      if (run === undefined) return
      if (reason === 'handed-over') await signals.publish(JOBS_CHANNEL, {})
      if (reason === 'fault' && run.fruitlessAttempts >= MOST_FRUITLESS_ATTEMPTS) await giveUp(id, attempt)
    },
    expire,
    lapse,
    async stop(runId, { cascade, byId, alongside }) {
      const stopped = await stopOne(runId, byId, alongside)
      const descendants = cascade ? await cascadeOf(db, runId, (id) => stopOne(id, byId)) : []
      await signals.publish(JOBS_CHANNEL, {})
      return stopped === null ? descendants : [stopped, ...descendants]
    },
    leave,
    endGone,
    async sweep() {
      await aftermath.sweep()
      await leave(null)
      await endGone()
    },
    timed: timedBy({ expire, lapse }),
    stopSignals,
  }
}

function timedBy({ expire, lapse }: Pick<Lifecycle, 'expire' | 'lapse'>): Timed[] {
  return [
    {
      what: 'a run past its time limit',
      rows: Prisma.sql`SELECT id, "deadlineAt" AS at FROM "Run" WHERE "deadlineAt" IS NOT NULL`,
      handle: (ids) => forEach(ids, expire),
    },
    {
      what: 'a run with an expired lease',
      rows: Prisma.sql`SELECT id, ${LEASE_END} AS at FROM "Run" WHERE status = 'RUNNING' AND "claimableAt" IS NULL`,
      handle: (ids) => forEach(ids, lapse),
    },
  ]
}

type SetBack = Pick<Run, 'attempt' | 'fruitlessAttempts'>

const isNoSpace = (id: Prisma.Sql) =>
  Prisma.sql`(${id} IS NOT NULL AND NOT EXISTS (SELECT 1 FROM "Space" s WHERE s.id = ${id} AND s."deletedAt" IS NULL))`

/** A run `r` whose agent or space was deleted. */
const IS_GONE = Prisma.sql`(
  NOT EXISTS (SELECT 1 FROM "Agent" a WHERE a.id = r."agentId") OR ${isNoSpace(Prisma.sql`r."triggerSpaceId"`)}
  OR (r."triggerType" = 'INBOX' AND EXISTS (
    SELECT 1 FROM "InboxEvent" e WHERE e."runId" = r.id AND ${isNoSpace(Prisma.sql`e."spaceId"`)})))`

const HAS_LAPSED = Prisma.sql`
  status = 'RUNNING' AND "claimableAt" IS NULL AND ${LEASE_END} <= clock_timestamp()`

/**
 * Backoff of 1 s, 2 s, 4 s …, at most a minute; restarts at 1 s after progress. After too many
 * crashes the row stays without a lease, so that the poller finds it until its end is written.
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

/** The states from which a run may end. */
interface EndFrom {
  id: string
  statuses: RunStatus[]
  /** The attempt that ends it; absent: any. */
  attempt?: number
  /** Only if it is over its time limit. */
  isOverdue?: boolean
}

async function writeEnd(tx: Tx, from: EndFrom, ending: RunEnding, hooks: LifecycleHooks) {
  const { id, statuses, attempt = null, isOverdue = false } = from
  const summary = ending.status === 'COMPLETED' ? ending.summary : null
  const error = ending.status === 'FAILED' ? ending.error : null
  const stoppedById = ending.stopReason === 'STOPPED' ? ending.stoppedById : null
  const [run] = await tx.$queryRaw<Run[]>`
    UPDATE "Run" SET status = ${ending.status}::"RunStatus", "finishedAt" = now(), summary = coalesce(${summary}, summary),
      error = coalesce(${error}, error), "stopReason" = ${ending.stopReason}::"RunStopReason", "stoppedById" = ${stoppedById},
      "claimableAt" = NULL, "deadlineAt" = NULL
    WHERE id = ${id} AND status = ANY(${statuses}::"RunStatus"[]) AND (${attempt}::int IS NULL OR attempt = ${attempt}::int)
      AND (NOT ${isOverdue} OR "deadlineAt" <= now())
    RETURNING *`
  if (run === undefined) return null
  if (ending.status !== 'COMPLETED') await cancelAll(tx, run)
  return { run, isErased: false, ...(await hooks.onRunEnded(tx, run, ending)) }
}

/**
 * Locks the run's row, as a submission does: the last answer either comes before and is seen, or
 * resumes the run. Suspends the run's time limit if a waiting call has an explicit timeout.
 */
async function writePause(tx: Tx, claim: Claim): Promise<boolean> {
  await writeHeld(tx, claim)
  const count = await tx.$executeRaw`
    UPDATE "Run" SET status = 'WAITING_TOOL', "fruitlessAttempts" = 0, setbacks = 0, "leaseUntil" = NULL,
      "timeLeftMs" = CASE WHEN w.patient THEN greatest(0, extract(epoch FROM "deadlineAt" - now()) * 1000)::int END,
      "deadlineAt" = CASE WHEN w.patient THEN NULL ELSE "deadlineAt" END
    FROM (
      SELECT count(*) AS calls, bool_or(coalesce(t."timeoutGiven", false) OR coalesce((c.approval->>'patient')::boolean, false)) AS patient
      FROM "ToolCall" c LEFT JOIN "AgentTool" t ON t."agentId" = c."agentId" AND t.name = c."toolName"
      WHERE c."runId" = ${claim.run.id} AND ${IS_LEFT_TO_OTHERS}
    ) w WHERE id = ${claim.run.id} AND w.calls > 0`
  return count > 0
}
