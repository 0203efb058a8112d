import { MCP_NAME_SEPARATOR } from '../agents/tool-names.ts'
import { JOBS_CHANNEL } from '../broker/topics.ts'
import { Prisma, type Run } from '../generated/prisma/client.ts'
import { DUE_JOBS_CHANNEL, NOTIFY } from '../jobs/queues.ts'
import { ASK_REMOTE_AGENT } from '../lib/foreign-model.ts'
import type { Tx } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'
import { type Mention, mentionIn, turnEndOf } from '../rules/chain.ts'
import {
  type Completion,
  type EndFacts,
  type EndPlan,
  planEnd,
  type RunEnding,
  TOOLS_WITHOUT_EFFECT,
} from '../rules/run-end.ts'
import type { Claim, ClaimedRun } from '../runs/claiming.ts'
import { cycleInputOf } from '../runs/cycle-transcript.ts'
import { changeOf } from '../runs/run-changes.ts'
import { createEndCounter } from '../runs/run-metrics.ts'
import { cancelCallsOfRun } from '../stores/call-store.ts'
import { claimedEventsSql, hasWaiting, settleEvents } from '../stores/inbox-store.ts'
import { completeIfSql, type EndFrom, endRunRow, setSummary } from '../stores/run-store.ts'
import { HANDED_OUT_CALLS_SQL } from '../stores/status-sql.ts'
import { HAS_NO_TURN_SQL, mentionSql, passTurn } from './chain.ts'
import { delegate } from './delegate.ts'
import { eraseCycle, forgetEvents, rememberCycle, restAgent } from './end-cycle.ts'
import { collectOutcomeChanges, type OutcomeChanges } from './outcome-changes.ts'
import { endEventOf, type MessageRecovery } from './recover-messages.ts'
import { enqueueCancellations } from './remote-tasks.ts'
import { publishWoken } from './wake.ts'

/** A run that has ended. `isErased`: whether the run was erased, so that only its usage and its outcomes remain. */
export type EndedRun = Run & { isErased: boolean }

/** Ends runs on behalf of workers, people, limits and deletions. */
export interface RunEnds {
  /**
   * Ends a run that has one of the statuses in `from`, and applies all effects on its chain, its outcomes and its
   * agent's inbox.
   * @param alongside additional writes in the same transaction
   * @returns null if the run has none of the statuses
   */
  end(from: EndFrom, ending: RunEnding, alongside?: (tx: Tx) => Promise<void>): Promise<EndedRun | null>
  /**
   * An optional optimization of `end`. Returns assignments for the statement that writes a run's last step. They
   * complete the run if its end has no other effects. Otherwise the run stays RUNNING, and `end` must end it.
   * Gain: each run whose last step has no calls saves the four round trips of `end` (BEGIN, the end, the facts,
   * COMMIT). A run of two steps with one message takes 8 statements instead of 12. The limit in `bench/round-trips`
   * depends on this optimization (docs/round-trips.md).
   * To remove the optimization, let the engine call `end` after every last step, and delete this function,
   * `publishCompleted`, `completeIfSql`, and `completing` of `Journal.generated`.
   */
  completeIfAloneSql(ending: Completion): Prisma.Sql
  /** Publishes the end of a run that was completed together with its last step. */
  publishCompleted(claim: Claim): Promise<void>
}

export interface RunEndParts {
  recovery: Pick<MessageRecovery, 'settle'>
}

export function createRunEnds(platform: Platform, { recovery }: RunEndParts): RunEnds {
  const { db, signals } = platform
  const countEnd = createEndCounter(platform)
  const changed = (run: ClaimedRun) => signals.publish(...changeOf(run))

  return {
    async end(from, ending, alongside) {
      const ended = await db.transaction(async (tx) => {
        const run = await endRunRow(tx, from, ending)
        if (run === null) return null
        if (ending.status !== 'COMPLETED') await cancelCallsOfRun(tx, run)
        // The calls are canceled first. This waits for a call that is just recording a message to an agent on another
        // server, so that the call's task is found here.
        const hasTasks = !hasAnswered(ending) && (await enqueueCancellations(tx, platform.jobs, run.id))
        const applied = await applyEffects(tx, platform, run, ending)
        await alongside?.(tx)
        return { run, hasTasks, ...applied }
      })
      if (ended === null) return null
      const { run, hasTasks, isErased } = ended
      countEnd(run)
      await recovery.settle(run, isErased ? { type: 'RunCanceled' } : endEventOf(run))
      await ended.afterCommit()
      if (hasTasks) await signals.publish(DUE_JOBS_CHANNEL, {})
      await changed(run)
      return { ...run, isErased }
    },
    // The end of a think cycle always has further effects on its agent, so cycles are excluded.
    completeIfAloneSql: (ending) =>
      completeIfSql(
        ending,
        Prisma.sql`("Run"."triggerType" <> 'INBOX' AND ${HAS_NO_TURN_SQL} AND ${HAS_POSTED_SQL}
          AND ${hasAnswered(ending) ? Prisma.sql`true` : HAS_NO_REMOTE_CALL_SQL})`,
      ),
    async publishCompleted(claim) {
      const run: ClaimedRun = { ...claim.run, status: 'COMPLETED' }
      countEnd(run)
      await Promise.all([recovery.settle(run, { type: 'RunCompleted' }), changed(run)])
    },
  }
}

interface Applied {
  isErased: boolean
  afterCommit(): Promise<void>
}

/**
 * Reads the facts about a run's end, then plans and applies its effects. Locks the run's row before the agent's row,
 * as do all transactions that need both locks.
 */
async function applyEffects(tx: Tx, platform: Platform, run: Run, ending: RunEnding): Promise<Applied> {
  const { cycleRestMs } = platform.config.limits
  const isCycle = run.triggerType === 'INBOX'
  if (isCycle && ending.stopReason !== 'GONE') await restAgent(tx, run, cycleRestMs)
  const { mention, ...facts } = await readEndFacts(tx, run, ending)
  const plan = planEnd(run, ending, facts)
  const outcomes = collectOutcomeChanges(tx, platform, { withJob: ending.status !== 'COMPLETED' })
  await outcomes.set(...plan.outcomes.map((outcome) => ({ ...outcome, agentId: run.agentId })))
  const next = plan.endsTurn ? await passOn(tx, platform, run, { ...plan, mention }, outcomes) : null
  await settleEvents(
    tx,
    plan.events.map(({ event: { id }, fate }) => ({ id, fate })),
  )
  await applyToCycle(tx, run, plan, facts)
  if (plan.summary !== undefined) await setSummary(tx, run.id, plan.summary)
  // A cycle has not failed permanently if its events will be retried.
  const notifies = plan.ending.status === 'FAILED' && plan.endsTurn && run.askers.length > 0
  if (notifies)
    await platform.jobs.enqueue(tx, NOTIFY, [
      { key: `failed-run:${run.id}`, input: { cause: 'failed-run', id: run.id } },
    ])
  const goesOn = plan.rests && (await hasWaiting(tx, run.agentId))
  const ring = () => platform.signals.publish(JOBS_CHANNEL, {})
  return {
    isErased: plan.cycle === 'erase',
    async afterCommit() {
      if (plan.cycle === 'erase') {
        const reason = ending.status === 'COMPLETED' ? (ending.skipped?.reason ?? null) : null
        platform.logger.info({ runId: run.id, agentId: run.agentId, reason }, 'skipped a think cycle')
      }
      await outcomes.announce()
      await next?.afterCommit()
      if (goesOn) await ring()
      if (notifies) await platform.signals.publish(DUE_JOBS_CHANNEL, {})
      // Wakes the workers after the pause, so that they process events that arrive during the pause. If the signal is
      // lost, the periodic check for due inboxes finds these events.
      if (plan.rests) setTimeout(() => ring().catch(() => {}), cycleRestMs + 1).unref()
    },
  }
}

/** Passes the turn in a chain to the next agent, or applies a delegation outside a chain. */
async function passOn(
  tx: Tx,
  platform: Platform,
  run: Run,
  { ending, mention }: { ending: RunEnding; mention: Mention | null },
  outcomes: OutcomeChanges,
): Promise<{ afterCommit(): Promise<void> } | null> {
  const passed = await passTurn(tx, platform, { run, ...turnEndOf(ending, mention) }, outcomes)
  if (passed !== null || ending.stopReason !== 'HANDED_ON') return passed
  // Outside a chain, the target does not see who delegated.
  const { targetAgentId: targetId, ...delegated } = ending.delegated
  const woke = await delegate(tx, platform, run, { ...delegated, targetId, chainId: null }, outcomes)
  return woke.type === 'woken' ? { afterCommit: () => publishWoken(platform, woke.woken) } : null
}

async function applyToCycle(tx: Tx, run: Run, plan: EndPlan, facts: EndFacts): Promise<void> {
  if (plan.cycle === 'remember') await rememberCycle(tx, run, plan, facts)
  else if (plan.cycle === 'erase') await eraseCycle(tx, run)
  else if (plan.cycle === 'forget') await forgetEvents(tx, run)
}

type ReadFacts = EndFacts & { mention: Mention | null }

/** Reads the facts in one statement, after the run's row was locked, so that they cannot become outdated. */
async function readEndFacts(tx: Tx, run: Run, { status }: RunEnding): Promise<ReadFacts> {
  const isCycle = run.triggerType === 'INBOX'
  const failure = isCycle ? (cycleInputOf(run).failure ?? null) : null
  if (!isCycle && status !== 'COMPLETED') {
    return { hasPosted: false, hasActed: false, hasDoneNothing: false, failure, events: [], mention: null }
  }
  const [row] = await tx.$queryRaw<(Omit<EndFacts, 'failure'> & { mention: Record<string, unknown> | null })[]>`
    SELECT EXISTS (SELECT 1 FROM "Message" WHERE "runId" = ${run.id}) AS "hasPosted", ${mentionSql(run.id)} AS mention,
      ${isCycle ? Prisma.sql`true` : hasCalledSql(run.id, ACTS_OUTSIDE)} AS "hasActed",
      ${isCycle ? hasDoneNothingSql(run.id) : Prisma.sql`false`} AS "hasDoneNothing",
      ${isCycle ? claimedEventsSql(run.id, run.forgets) : Prisma.sql`'[]'::jsonb`} AS events`
  if (row === undefined) throw new Error(`The outcome of run ${run.id} could not be read.`)
  const mention = row.mention === null ? null : mentionIn(row.mention)
  return { ...row, failure, mention, hasActed: row.hasActed || row.hasPosted || mention !== null }
}

/** Codes of errors that occur before a call can have an external effect. */
const REFUSED_BEFORE = ['BAD_INPUT', 'BLOCKED_ADDRESS', 'NO_SUCH_TOOL', 'TOO_MANY_CALLS', 'NO_ACTIVE_SPACE']

/**
 * SQL for whether the cycle has posted nothing and made no call that may have an external effect. A call has an
 * external effect if it goes to another server, a person or a service, or if it changes notes or plans. A call that
 * failed while it was being sent may have had an effect.
 */
const hasDoneNothingSql = (runId: string): Prisma.Sql => Prisma.sql`(
  NOT EXISTS (SELECT 1 FROM "RunSpace" WHERE "runId" = ${runId}) AND NOT ${hasCalledSql(
    runId,
    Prisma.sql`CASE WHEN c.execution IS NULL THEN c."toolName" <> ALL(${[...TOOLS_WITHOUT_EFFECT]}::text[]) ELSE c.execution <> 'INTERNAL' END`,
  )})`

/** SQL condition: the tool of the call `c` belongs to another server, a service or people. */
const ACTS_OUTSIDE = Prisma.sql`(c.execution <> 'INTERNAL' OR c.execution IS NULL AND strpos(c."toolName", ${MCP_NAME_SEPARATOR}) > 0)`

/**
 * SQL for whether the run has made a call `c` that needed approval, or that satisfies `counts` and may have had an
 * effect.
 */
function hasCalledSql(runId: string, counts: Prisma.Sql): Prisma.Sql {
  return Prisma.sql`EXISTS (
    SELECT 1 FROM "ToolCall" c WHERE c."runId" = ${runId} AND (c."approvalState" IS NOT NULL OR ${counts}
      AND (c.status IN ${HANDED_OUT_CALLS_SQL} OR (c.status = 'FAILED'
        AND (c.execution = 'HTTP' OR strpos(c."toolName", ${MCP_NAME_SEPARATOR}) > 0)
        AND coalesce(c.output->'error'->>'code', '') <> ALL(${REFUSED_BEFORE}::text[])))))`
}

/**
 * Whether a run ended normally, and not because of a limit. Such a run leaves no unfinished task of an agent on
 * another server.
 */
const hasAnswered = ({ status, stopReason }: Pick<RunEnding, 'status' | 'stopReason'>): boolean =>
  status === 'COMPLETED' && ['FINISHED', 'SKIPPED', 'ALL_ANSWERED'].includes(stopReason)

/** SQL condition on the row of a run: the run has started no task of an agent on another server. */
const HAS_NO_REMOTE_CALL_SQL = Prisma.sql`NOT EXISTS (
  SELECT 1 FROM "ToolCall" c WHERE c."runId" = "Run".id AND c."toolName" = ${ASK_REMOTE_AGENT})`

/** SQL condition on the row of a run: the run has posted in a space, or no message triggered it. */
const HAS_POSTED_SQL = Prisma.sql`("Run"."triggerMessageId" IS NULL OR EXISTS (SELECT 1 FROM "RunSpace" s WHERE s."runId" = "Run".id))`
