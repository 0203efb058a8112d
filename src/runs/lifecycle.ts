import type { Prisma, Run, RunStatus } from '../generated/prisma/client.ts'
import type { Tx } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'
import { agentChannel, JOBS_CHANNEL, runTopic } from '../realtime/topics.ts'
import type { Announcer } from '../spaces/announcer.ts'
import { RunLostError } from '../spaces/posting.ts'
import { type Aftermath, createAftermath, endEventOf } from './aftermath.ts'
import { cascadeOf } from './cascade.ts'
import { ACTIVE_STATUSES } from './runs.ts'
import { createStopSignals, type StopSignals } from './stop-signal.ts'
import { ANSWERED_OUTSIDE } from './tool-calls.ts'

/** A run in the hands of a worker. Every write names the attempt; a later claim, a stop or an end makes it refused. */
export interface Claim {
  run: Run
  attempt: number
  jobId: string
  /** First time, after its tools were answered, or from a worker that died. */
  kind: 'started' | 'resumed' | 'taken-over'
}

export type ClaimResult =
  | { type: 'claimed'; claim: Claim }
  /** Its agent executes as many runs as it may: try again later. */
  | { type: 'busy' }
  /** It waits, is executed by another job, or has ended. */
  | { type: 'nothing' }

/** How a run ends. */
export type RunEnding =
  | { status: 'COMPLETED'; summary: string | null; skipped?: { reason: string | null } }
  | { status: 'FAILED'; error: string }
  | { status: 'CANCELED'; delegated?: { targetAgentId: string; reason: string | null } }

export interface LifecycleHooks {
  /** In the transaction that ends a run: what its chain, its outcome and whoever waits for it need. */
  onRunEnded(tx: Tx, run: Run, ending: RunEnding): Promise<RunAftermath>
}

export interface RunAftermath {
  /** The run was rolled back: nothing of it is left but what was said to have happened. */
  isErased?: boolean
  afterCommit(): Promise<void>
}

/** The only writer of `Run.status`: every change is a compare-and-set from the statuses that it may come from. */
export interface Lifecycle {
  /** QUEUED, answered WAITING_TOOL or orphaned RUNNING → RUNNING. */
  claim(runId: string, jobId: string): Promise<ClaimResult>
  /** RUNNING → WAITING_TOOL, while at least one of its calls waits. False: all are answered, go on. @throws RunLostError */
  pause(claim: Claim, waitingIds: string[]): Promise<boolean>
  /** RUNNING under this claim → its end. False: it was no longer this worker's to end. */
  end(claim: Claim, ending: RunEnding): Promise<boolean>
  /** WAITING_TOOL or QUEUED and past its time → FAILED: nobody executes it, so nobody else notices. */
  expire(runId: string): Promise<void>
  /** Any living status → CANCELED, for good when this returns. Null: it had ended already. */
  stop(runId: string, options: { cascade: boolean }): Promise<Run | null>
  /** Finishes what a process that died between ending a run and tidying up after it left behind. */
  sweep(): Promise<void>
  /** Gives a run back that this worker may not finish: that it was taken up does not count against it. */
  handBack(claim: Claim): Promise<void>
  stopSignals: StopSignals
}

/** Claims without anything journaled in between that a run survives. */
const MOST_FRUITLESS_ATTEMPTS = 3

export function createLifecycle(platform: Platform, announcer: Announcer, hooks: LifecycleHooks): Lifecycle {
  const { db, signals, log, jobs, clock, config } = platform
  const aftermath = createAftermath(platform, announcer)
  const stopSignals = createStopSignals(signals)

  async function changed(run: Run): Promise<void> {
    await signals.publish(agentChannel(run.agentId), { type: 'run-changed' })
  }

  /** The compare-and-set to an end, its transaction, and what follows. */
  async function finish(from: EndFrom, ending: RunEnding): Promise<Run | null> {
    const ended = await db.transaction((tx) => writeEnd(tx, from, ending, hooks))
    if (ended === null) return null
    await aftermath.settle(ended.run, ended.isErased ? { type: 'RunCanceled' } : endEventOf(ended.run))
    await ended.afterCommit()
    await changed(ended.run)
    return ended.run
  }

  async function stopOne(runId: string): Promise<Run | null> {
    return finish({ id: runId, statuses: ACTIVE_STATUSES }, { status: 'CANCELED' })
  }

  return {
    async claim(runId, jobId) {
      const result = await db.transaction((tx) => writeClaim(tx, runId, jobId))
      if (result.type === 'exhausted') {
        const error = `The worker died ${MOST_FRUITLESS_ATTEMPTS} times without getting any further with this run.`
        await finish({ id: runId, statuses: ['RUNNING'], attempt: result.attempt }, { status: 'FAILED', error })
        return { type: 'nothing' }
      }
      if (result.type === 'claimed') {
        await announceClaim(platform, aftermath, result.claim)
        await changed(result.claim.run)
      }
      return result
    },
    async pause(claim, waitingIds) {
      const deadline = new Date((claim.run.startedAt?.getTime() ?? clock.now()) + config.limits.maxRunSeconds * 1000)
      const paused = await db.transaction(async (tx) => {
        if (!(await writePause(tx, claim))) return false
        await jobs.enqueue(tx, [{ wakeUp: { type: 'run-deadline', runId: claim.run.id }, at: deadline }])
        return true
      })
      if (!paused) return false
      const topic = runTopic(claim.run.id)
      await log.append(topic, { type: 'RunWaitingTool', toolCallIds: waitingIds }, { guard: topic })
      await changed(claim.run)
      return true
    },
    async end({ run, attempt }, ending) {
      return (await finish({ id: run.id, statuses: ['RUNNING'], attempt }, ending)) !== null
    },
    async handBack({ run, attempt }) {
      await db.prisma.run.updateMany({
        where: { id: run.id, attempt, status: 'RUNNING' },
        data: { fruitlessAttempts: 0 },
      })
    },
    async expire(runId) {
      const startedBefore = new Date(clock.now() - config.limits.maxRunSeconds * 1000)
      const error = outOfTime(config.limits.maxRunSeconds)
      await finish({ id: runId, statuses: ['WAITING_TOOL', 'QUEUED'], startedBefore }, { status: 'FAILED', error })
    },
    async stop(runId, { cascade }) {
      const stopped = await stopSignals.stop(runId, () => stopOne(runId))
      if (cascade) await cascadeOf(db, runId, (id) => stopSignals.stop(id, () => stopOne(id)))
      await signals.publish(JOBS_CHANNEL, {})
      return stopped
    },
    sweep: () => aftermath.sweep(),
    stopSignals,
  }
}

/** What a run that took too long is told to have ended of. */
export function outOfTime(maxRunSeconds: number): string {
  return `The run took longer than ${maxRunSeconds} s, the most it may (PARLEY_MAX_RUN_SECONDS).`
}

async function announceClaim({ log }: Platform, aftermath: Aftermath, { run, kind }: Claim): Promise<void> {
  const topic = runTopic(run.id)
  if (kind === 'resumed') await log.append(topic, { type: 'RunResumed' }, { guard: topic })
  else await log.append(topic, { type: 'RunStarted' }, { once: 'started', guard: topic })
  if (kind === 'taken-over') await aftermath.takeOver(run)
}

/** From where a run may come to its end. */
interface EndFrom {
  id: string
  statuses: RunStatus[]
  /** The claim that ends it; absent for whoever else may. */
  attempt?: number
  /** Only one that began before. */
  startedBefore?: Date
}

async function writeEnd(tx: Tx, from: EndFrom, ending: RunEnding, hooks: LifecycleHooks) {
  const { id, statuses, attempt = null, startedBefore = null } = from
  const summary = ending.status === 'COMPLETED' ? ending.summary : null
  const error = ending.status === 'FAILED' ? ending.error : null
  const [run] = await tx.$queryRaw<Run[]>`
    UPDATE "Run" SET status = ${ending.status}::"RunStatus", "finishedAt" = now(), summary = coalesce(${summary}, summary),
      error = coalesce(${error}, error)
    WHERE id = ${id} AND status = ANY(${statuses}::"RunStatus"[]) AND (${attempt}::int IS NULL OR attempt = ${attempt}::int)
      AND (${startedBefore}::timestamptz IS NULL OR "startedAt" <= ${startedBefore}::timestamptz)
    RETURNING *`
  if (run === undefined) return null
  if (ending.status !== 'COMPLETED') {
    await tx.toolCall.updateMany({
      where: { runId: run.id, status: { in: ['STREAMING', 'RUNNING', 'WAITING'] }, ...exceptAsynchronous(run) },
      data: { status: 'CANCELED', settledAt: new Date() },
    })
  }
  return { run, isErased: false, ...(await hooks.onRunEnded(tx, run, ending)) }
}

/** What a think cycle asked somebody outside is still answered after its end: the answer goes to the inbox. */
function exceptAsynchronous({ triggerType }: Run): Prisma.ToolCallWhereInput {
  return triggerType === 'INBOX' ? { NOT: { status: 'WAITING', execution: { in: ANSWERED_OUTSIDE } } } : {}
}

type WrittenClaim = ClaimResult | { type: 'exhausted'; attempt: number }

/** Claims under the agent's row lock, so that the number of runs it executes is counted exactly. */
async function writeClaim(tx: Tx, runId: string, jobId: string): Promise<WrittenClaim> {
  const [agent] = await tx.$queryRaw<{ id: string; most: number }[]>`
    SELECT a.id, a."maxConcurrentRuns" AS most FROM "Agent" a
    WHERE a.id = (SELECT "agentId" FROM "Run" WHERE id = ${runId}) FOR NO KEY UPDATE`
  if (agent === undefined) return { type: 'nothing' }
  const [row] = await tx.$queryRaw<(Run & { verdict: Verdict; statusBefore: RunStatus; attemptBefore: number })[]>`
    WITH before AS (
      SELECT status, "jobId", "fruitlessAttempts", attempt,
        (SELECT count(*) FROM "Run" o WHERE o."agentId" = ${agent.id} AND o.status = 'RUNNING') AS executing,
        EXISTS (SELECT 1 FROM "ToolCall" c WHERE c."runId" = ${runId} AND c.status = 'WAITING') AS waiting
      FROM "Run" WHERE id = ${runId} FOR UPDATE
    ), decided AS (
      SELECT status AS "statusBefore", attempt AS "attemptBefore", CASE
        WHEN status = 'RUNNING' AND "jobId" = ${jobId} AND "fruitlessAttempts" >= ${MOST_FRUITLESS_ATTEMPTS} THEN 'exhausted'
        WHEN status = 'RUNNING' AND "jobId" = ${jobId} THEN 'claimed'
        WHEN NOT (status = 'QUEUED' OR (status = 'WAITING_TOOL' AND NOT waiting)) THEN 'nothing'
        WHEN executing >= ${agent.most} THEN 'busy'
        ELSE 'claimed' END AS verdict
      FROM before
    ), claimed AS (
      UPDATE "Run" SET status = 'RUNNING', attempt = attempt + 1, "fruitlessAttempts" = "fruitlessAttempts" + 1,
        "jobId" = ${jobId}, "startedAt" = coalesce("startedAt", now())
      FROM decided WHERE id = ${runId} AND verdict = 'claimed' RETURNING "Run".*
    )
    SELECT decided.*, claimed.* FROM decided LEFT JOIN claimed ON true`
  if (row === undefined) return { type: 'nothing' }
  const { verdict, statusBefore, attemptBefore, ...run } = row
  if (verdict === 'exhausted') return { type: verdict, attempt: attemptBefore }
  if (verdict !== 'claimed') return { type: verdict }
  const kind = statusBefore === 'QUEUED' ? 'started' : statusBefore === 'RUNNING' ? 'taken-over' : 'resumed'
  return { type: verdict, claim: { run, attempt: run.attempt, jobId, kind } }
}

/** A RUNNING run belongs to the job that claimed it: only that job, handed on after its worker died, may claim it again. */
type Verdict = 'claimed' | 'busy' | 'nothing' | 'exhausted'

/** Under the run's row lock, which a submission takes too: the last answer either comes before and is seen, or resumes the run. */
async function writePause(tx: Tx, { run, attempt }: Claim): Promise<boolean> {
  const [held] = await tx.$queryRaw<unknown[]>`
    SELECT 1 FROM "Run" WHERE id = ${run.id} AND status = 'RUNNING' AND attempt = ${attempt} FOR NO KEY UPDATE`
  if (held === undefined) throw new RunLostError(run.id)
  const count = await tx.$executeRaw`
    UPDATE "Run" SET status = 'WAITING_TOOL', "fruitlessAttempts" = 0, "jobId" = NULL WHERE id = ${run.id} AND EXISTS (
      SELECT 1 FROM "ToolCall" WHERE "runId" = ${run.id} AND status = 'WAITING')`
  return count > 0
}
