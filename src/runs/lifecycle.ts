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

/** Why a worker gives a run back: it stops, as workers do; the database was away; or something broke that should not have. */
export type HandBackReason = 'handed-over' | 'outage' | 'fault'

export interface LifecycleHooks {
  /** In the transaction that ends a run: what its chain, its outcome and whoever waits for it need. */
  onRunEnded(tx: Tx, run: Run, ending: RunEnding): Promise<RunAftermath>
  /** A condition on a row of "Run": should it complete without a skip, `onRunEnded` has nothing to do. Whatever is added there belongs here too. */
  endsAlone: Prisma.Sql
}

export interface RunAftermath {
  /** The run was rolled back: nothing of it is left but what was said to have happened. */
  isErased?: boolean
  afterCommit(): Promise<void>
}

/** The only writer of `Run.status`: every change is a compare-and-set from the statuses that it may come from. */
export interface Lifecycle {
  /** QUEUED, answered WAITING_TOOL or given back RUNNING → RUNNING, as many as `most`; and whose inboxes are next. */
  claim(most: number): Promise<Claimed>
  /** Says that a claimed run began or goes on, and puts in order what a worker that died left of it. */
  announce(claim: Claim): Promise<void>
  /** RUNNING → WAITING_TOOL, while at least one of its calls waits. False: all are answered, go on. @throws RunLostError */
  pause(claim: Claim, waitingIds: string[]): Promise<boolean>
  /** What completes a run in a hold's `sets`, with its last step, where nothing follows from that: else it goes on RUNNING, to be ended by `end`. */
  completing(ending: Completion): Prisma.Sql
  /** Tells of an end that `completing` has written. */
  completed(claim: Claim): Promise<void>
  /** RUNNING under this claim → its end. Null: it was no longer this worker's to end. `isErased`: nothing else is left of it. */
  end(claim: Claim, ending: RunEnding): Promise<{ isErased?: boolean } | null>
  /** Living and past its time → FAILED, and whoever executes it lets go. */
  expire(runId: string): Promise<void>
  /** RUNNING, and its lease was not renewed: whoever has room may claim it after a pause; the third time in a row → FAILED. */
  lapse(runId: string): Promise<void>
  /**
   * Any living status → CANCELED, for good when this returns; with `cascade` also whatever it set off, which may live on where
   * it is over itself. @returns those that this ended, the run itself first where it was among them
   */
  stop(runId: string, options: StopOptions): Promise<Run[]>
  /** QUEUED runs that a space had triggered in which their agent is no member any more → CANCELED, of one agent there or of all. */
  leave(left: { agentId: string; spaceId: string } | null): Promise<void>
  /** Living runs whose agent was deleted, or the space that had triggered them or that their cycle has events of → CANCELED, GONE. */
  endGone(): Promise<void>
  /** Finishes what a process that died between ending a run and tidying up after it left behind. */
  sweep(): Promise<void>
  /**
   * Gives back a run that this worker does not finish. Handed over, it can be claimed at once; else after a pause, each twice as
   * long as the one before, until the run gets further. Only a fault counts as a death of its worker; the third ends it.
   */
  handBack(claim: Claim, reason: HandBackReason): Promise<void>
  /** What has a time here: runs past theirs, and leases that were not renewed. */
  timed: Timed[]
  stopSignals: StopSignals
}

/** Claims without anything journaled in between that a run survives. */
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
    // What the run tells from here on comes after it, in the order of the calls.
    told.catch((error) =>
      logger.warn({ runId: run.id, error: messageOf(error) }, 'could not append a run event; dropping it'),
    )
    if (kind === 'taken-over') await aftermath.takeOver(run)
    await changed(run)
  }

  /** The compare-and-set to an end, its transaction, and what follows. */
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

  /** After one attempt too many: nobody takes it up again. */
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

/** A run `r` of an agent, or about a space, that was deleted. */
const IS_GONE = Prisma.sql`(
  NOT EXISTS (SELECT 1 FROM "Agent" a WHERE a.id = r."agentId") OR ${isNoSpace(Prisma.sql`r."triggerSpaceId"`)}
  OR (r."triggerType" = 'INBOX' AND EXISTS (
    SELECT 1 FROM "InboxEvent" e WHERE e."runId" = r.id AND ${isNoSpace(Prisma.sql`e."spaceId"`)})))`

const HAS_LAPSED = Prisma.sql`
  status = 'RUNNING' AND "claimableAt" IS NULL AND ${LEASE_END} <= clock_timestamp()`

/**
 * 1 s, 2 s, 4 s …, at most a minute, from 1 s again once the run got further. One that has died too often stays as it is, without a
 * lease, and is found again until its end is written.
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

/** From where a run may come to its end. */
interface EndFrom {
  id: string
  statuses: RunStatus[]
  /** The claim that ends it; absent for whoever else may. */
  attempt?: number
  /** Only one whose time is over. */
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
 * Under the run's row lock, which a submission takes too: the last answer either comes before and is seen, or resumes the run.
 * While it waits for who was given a time of their own, the run's time stands still.
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
