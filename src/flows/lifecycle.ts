import { JOBS_CHANNEL, runTopic } from '../broker/topics.ts'
import { Prisma, type Run } from '../generated/prisma/client.ts'
import { messageOf } from '../lib/errors.ts'
import { sweepRows } from '../lib/sweep-rows.ts'
import type { Tx } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'
import type { RunEnding } from '../rules/run-end.ts'
import { ACTIVE_RUN_STATUSES } from '../rules/statuses.ts'
import { cascadeOf } from '../runs/cascade.ts'
import { type Claim, type Claimed, type ClaimedRun, createClaims } from '../runs/claiming.ts'
import { forEach, type Timed } from '../runs/due.ts'
import { writeHeld } from '../runs/hold.ts'
import { LEASE_END } from '../runs/presence.ts'
import { changeOf } from '../runs/run-changes.ts'
import { createStopSignals, type StopSignals } from '../runs/stop-signal.ts'
import { type HandBackReason, MOST_FRUITLESS_ATTEMPTS, pauseRun, setBackRun } from '../stores/run-store.ts'
import { ACTIVE_RUNS_SQL } from '../stores/status-sql.ts'
import { createRunEnds, type EndedRun, type RunEnds } from './end-run.ts'
import type { MessageRecovery } from './recover-messages.ts'

/** Options for stopping a run. */
export interface StopOptions {
  cascade: boolean
  /** The human or agent that stops the run; null for the operator. */
  byId: string | null
  /** Additional writes in the transaction that ends the run. */
  alongside?(tx: Tx): Promise<void>
}

/** Changes the status of runs. Every change is a compare-and-set that requires one of the allowed statuses. */
export interface Lifecycle extends Pick<RunEnds, 'completeIfAloneSql' | 'publishCompleted'> {
  /**
   * Changes up to `most` runs to RUNNING: runs that are QUEUED, runs that are WAITING_TOOL and have their results,
   * and RUNNING runs that were released. Also returns the inboxes that are due to be processed next.
   */
  claim(most: number): Promise<Claimed>
  /**
   * Publishes that a claimed run has started or resumed. If the run was taken over from a dead worker, also cleans up
   * after that worker.
   */
  announce(claim: Claim): Promise<void>
  /**
   * Pauses a run (RUNNING → WAITING_TOOL), if at least one of the run's calls is still waiting. Returns false if all
   * calls have results; the run then continues.
   * @throws RunLostError
   */
  pause(claim: Claim, waitingIds: string[]): Promise<boolean>
  /** Ends a run that is RUNNING under this claim. Returns null if the run no longer belongs to this attempt. */
  end(claim: Claim, ending: RunEnding): Promise<EndedRun | null>
  /** Fails an active run that is beyond its time limit, and makes the run's worker abort. */
  expire(runId: string): Promise<void>
  /**
   * Makes a RUNNING run with an expired lease claimable again after a pause. The third consecutive expiry fails the
   * run.
   */
  lapse(runId: string): Promise<void>
  /**
   * Cancels a run that is active. The status CANCELED is final when this function returns. With `cascade`, also stops
   * the runs that the run has started, even if the run itself has already ended.
   * @returns the stopped runs. The first is the run itself, if it was active.
   */
  stop(runId: string, options: StopOptions): Promise<Run[]>
  /**
   * Cancels QUEUED runs whose agent has left the triggering space. `left` selects one agent and space; null selects
   * all of them.
   */
  leave(left: { agentId: string; spaceId: string } | null): Promise<void>
  /**
   * Cancels active runs whose agent or triggering space was deleted, and active think cycles with an event from a
   * deleted space. Their reason is GONE.
   */
  endGone(): Promise<void>
  /** Finishes the cleanup of ended runs if it was interrupted by a crash. */
  sweep(): Promise<void>
  /**
   * Releases a run that this worker will not finish. With `handed-over`, the run can be claimed immediately. For
   * other reasons, it can be claimed after a pause, which doubles until the run makes progress. Only the reason
   * `fault` is treated as a crash. The third crash in a row fails the run.
   */
  handBack(claim: Claim, reason: HandBackReason): Promise<void>
  /** Finds due rows: runs beyond their time limit, and runs with an expired lease. */
  timed: Timed[]
  stopSignals: StopSignals
}

const GONE: RunEnding = { status: 'CANCELED', stopReason: 'GONE' }
const ENDED_AT_ONCE = 8
/** The maximum number of queued runs that are canceled at once when an agent leaves a space. Sweeps cancel the rest. */
const MOST_LEFT_BY_CALL = 50
const DIED_TOO_OFTEN = `Workers died ${MOST_FRUITLESS_ATTEMPTS} times in a row without progress on this run.`

export function createLifecycle(platform: Platform, { recovery }: { recovery: MessageRecovery }): Lifecycle {
  const { db, signals, log, logger, config } = platform
  const stopSignals = createStopSignals(signals)
  const claims = createClaims(platform)
  const { end, completeIfAloneSql, publishCompleted } = createRunEnds(platform, { recovery })

  async function changed(run: ClaimedRun): Promise<void> {
    await signals.publish(...changeOf(run), runTopic(run.id))
  }

  async function announce({ run, kind }: Claim): Promise<void> {
    const topic = runTopic(run.id)
    const told =
      kind === 'resumed'
        ? log.append(topic, { type: 'RunResumed' }, { unlessSealed: topic })
        : log.append(topic, { type: 'RunStarted' }, { once: 'started', unlessSealed: topic })
    // This append is not awaited, because the log keeps the order of the calls: later events of the run cannot
    // overtake this one.
    told.catch((error) =>
      logger.warn({ runId: run.id, error: messageOf(error) }, 'could not append a run event; dropping it'),
    )
    if (kind === 'taken-over') await recovery.takeOver(run)
    await changed(run)
  }

  function stopOne(
    runId: string,
    stoppedById: string | null,
    alongside?: StopOptions['alongside'],
  ): Promise<Run | null> {
    const ending: RunEnding = { status: 'CANCELED', stopReason: 'STOPPED', stoppedById }
    return stopSignals.stop(runId, () => end({ id: runId, statuses: ACTIVE_RUN_STATUSES }, ending, alongside))
  }

  async function expire(runId: string): Promise<void> {
    const ending: RunEnding = {
      status: 'FAILED',
      stopReason: 'TIME_LIMIT',
      error: `The run exceeded the time limit of ${config.limits.maxRunSeconds} s (PARLEY_MAX_RUN_SECONDS).`,
    }
    await stopSignals.stop(runId, () => end({ id: runId, statuses: ACTIVE_RUN_STATUSES, isOverdue: true }, ending))
  }

  async function leave(left: { agentId: string; spaceId: string } | null): Promise<void> {
    const isLeft = Prisma.sql`r.status = 'QUEUED' AND r."triggerSpaceId" IS NOT NULL
      AND (${left === null}::boolean OR (r."agentId" = ${left?.agentId ?? ''} AND r."triggerSpaceId" = ${left?.spaceId ?? ''}))
      AND NOT EXISTS (SELECT 1 FROM "Membership" m WHERE m."spaceId" = r."triggerSpaceId" AND m."entityId" = r."agentId")`
    const endOne = (id: string) => end({ id, statuses: ['QUEUED'] }, GONE)
    if (left === null) return endAll(isLeft, endOne)
    const runs = await db.query<{ id: string }>(
      Prisma.sql`SELECT r.id FROM "Run" r WHERE ${isLeft} ORDER BY r.id LIMIT ${MOST_LEFT_BY_CALL}`,
    )
    for (const { id } of runs) await endOne(id)
  }

  async function endGone(): Promise<void> {
    const isGone = Prisma.sql`r.status IN ${ACTIVE_RUNS_SQL} AND ${IS_GONE}`
    await endAll(isGone, (id) => stopSignals.stop(id, () => end({ id, statuses: ACTIVE_RUN_STATUSES }, GONE)))
  }

  /** Ends the runs that meet an SQL condition on `r`. Logs each failure; the next sweep tries again. */
  function endAll(condition: Prisma.Sql, endOne: (id: string) => Promise<unknown>): Promise<void> {
    return sweepRows({
      next: (after, most) =>
        db.query<{ id: string }>(Prisma.sql`
          SELECT r.id FROM "Run" r WHERE ${condition} AND r.id > ${after} ORDER BY r.id LIMIT ${most}`),
      handle: ({ id }) => endOne(id),
      report: ({ id }, error) =>
        logger.error({ runId: id, error: messageOf(error) }, 'could not end a run whose agent or space is gone'),
      concurrency: ENDED_AT_ONCE,
    })
  }

  /** Fails a run after too many attempts have crashed. */
  async function giveUp(runId: string, attempt: number): Promise<void> {
    const ending: RunEnding = { status: 'FAILED', stopReason: 'WORKER_LOST', error: DIED_TOO_OFTEN }
    await end({ id: runId, statuses: ['RUNNING'], attempt }, ending)
  }

  async function lapse(runId: string): Promise<void> {
    const run = await setBackRun(db, runId, HAS_LAPSED, 'fault')
    if (run !== null && run.fruitlessAttempts >= MOST_FRUITLESS_ATTEMPTS) await giveUp(runId, run.attempt)
  }

  return {
    async claim(most) {
      const claimed = await claims(most)
      if (claimed.claims.length > 0) await platform.racepoint('claimed')
      return claimed
    },
    announce,
    async pause(claim, waitingIds) {
      if (!(await db.transaction((tx) => pause(tx, claim)))) return false
      const topic = runTopic(claim.run.id)
      await log.append(topic, { type: 'RunWaitingTool', toolCallIds: waitingIds }, { unlessSealed: topic })
      await changed({ ...claim.run, status: 'WAITING_TOOL' })
      return true
    },
    completeIfAloneSql,
    publishCompleted,
    end: ({ run, attempt }, ending) => end({ id: run.id, statuses: ['RUNNING'], attempt }, ending),
    async handBack({ run: { id }, attempt }, reason) {
      const run = await setBackRun(db, id, Prisma.sql`attempt = ${attempt} AND status = 'RUNNING'`, reason)
      if (run === null) return
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
      const results = await Promise.allSettled([recovery.sweep(), leave(null), endGone()])
      for (const result of results) if (result.status === 'rejected') throw result.reason
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

const isNoSpace = (id: Prisma.Sql) =>
  Prisma.sql`(${id} IS NOT NULL AND NOT EXISTS (SELECT 1 FROM "Space" s WHERE s.id = ${id} AND s."deletedAt" IS NULL))`

/** SQL condition: the agent or a space of the run `r` was deleted. */
const IS_GONE = Prisma.sql`(
  NOT EXISTS (SELECT 1 FROM "Agent" a WHERE a.id = r."agentId") OR ${isNoSpace(Prisma.sql`r."triggerSpaceId"`)}
  OR (r."triggerType" = 'INBOX' AND EXISTS (
    SELECT 1 FROM "InboxEvent" e WHERE e."runId" = r.id AND ${isNoSpace(Prisma.sql`e."spaceId"`)})))`

const HAS_LAPSED = Prisma.sql`
  status = 'RUNNING' AND "claimableAt" IS NULL AND ${LEASE_END} <= clock_timestamp()`

/**
 * Locks the run's row, as does the submission of a result. A result that is submitted first is seen here; a result
 * that is submitted later resumes the paused run.
 */
async function pause(tx: Tx, claim: Claim): Promise<boolean> {
  await writeHeld(tx, claim)
  return pauseRun(tx, claim.run.id)
}
