import type { Viewer } from '../access/viewer.ts'
import type { Provenance } from '../confidentiality/marks.ts'
import { type Mind, type PlanFiring, Prisma } from '../generated/prisma/client.ts'
import type { JobContext } from '../jobs/job.ts'
import type { OverBudget } from '../lib/budget.ts'
import { ConflictError, NotFoundError } from '../lib/errors.ts'
import { newId, prefixOf } from '../lib/ids.ts'
import { NO_SUCH_PLAN } from '../plans/plans.ts'
import { nextSlot } from '../plans/schedule.ts'
import { enqueueSlots, firingKey, plansWithoutJob } from '../plans/slots.ts'
import { overBudget, rootHuman } from '../platform/budget-state.ts'
import type { Database, Tx } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'
import { requireAdmin } from '../rules/permissions.ts'
import { overBudgetOf, wayToWake } from '../rules/wake.ts'
import { deleteFiringsBefore, insertFiring, setNextSlot } from '../stores/plan-store.ts'
import { publishWoken, wake } from './wake.ts'

/** Fires plans. Each slot fires only once across all processes, however often its job runs. */
export interface Firing {
  /**
   * Handles a job of FIRE_PLAN: fires the current slot of the plan if the slot is due by the clock of the database.
   * The job only causes a check of the plan's row. Therefore jobs that are early, late, repeated, or left from a
   * former schedule do no harm.
   */
  fire(planId: string, job?: Pick<JobContext, 'complete'>): Promise<void>
  /**
   * Fires the plan outside its slots. Only admins may do this. Adds no event if an earlier event of the plan is still
   * waiting.
   * @throws ForbiddenError, NotFoundError; ConflictError if the agent is paused
   */
  runNow(viewer: Viewer, input: { id: string }): Promise<PlanFiring>
  /**
   * Enqueues jobs for slots that are due within a minute and have no job, for example because an earlier version of
   * Parley wrote them. Also restores slots that were skipped because a clock was fast. Does not repeat slots whose
   * job has failed permanently; an admin must decide about those.
   */
  restore(): Promise<void>
}

/** A firing further than this in the future was written by a process with a fast clock. */
const AHEAD_MS = 5000
/** The time for which firings are kept. */
const REMEMBERED_MS = 30 * 86_400_000
const MOST_AT_ONCE = 500
const HOUR_MS = 3_600_000

interface PlanRow extends Provenance {
  id: string
  agentId: string
  name: string
  instruction: string
  cron: string | null
  enabled: boolean
  nextRunAt: Date | null
  timeZone: string
  originId: string | null
  mind: Mind
  /** Whether the agent is paused. */
  paused: boolean
  /** The exhausted budget, if any. */
  over: OverBudget | null
  /** Whether the plan's last event is still waiting in the inbox. In that case no further event is added. */
  waits: boolean
  /** The current time by the clock of the database. */
  now: Date
}

/** @param now SQL for the database's time, which determines the due slots; tests replace this parameter */
export function createPlanFiring(platform: Platform, now = () => Prisma.sql`clock_timestamp()`): Firing {
  const { db, jobs } = platform

  return {
    async fire(planId, job) {
      const woken = await db.transaction(async (tx) => {
        const fired = await fireDue(tx, platform, now(), planId)
        await job?.complete(tx)
        return fired
      })
      await woken?.afterCommit()
    },
    async runNow(viewer, { id: planId }) {
      requireAdmin(viewer, 'run plans')
      if (prefixOf(planId) !== 'pln') throw new NotFoundError(NO_SUCH_PLAN)
      const { firing, afterCommit } = await db.transaction((tx) => fireNow(tx, platform, now(), planId))
      await afterCommit()
      return firing
    },
    async restore() {
      for (const { id } of await plansPutOff(db, now())) {
        await db.transaction((tx) => takeBack(tx, platform, now(), id))
      }
      const plans = await plansWithoutJob(db.prisma, now(), MOST_AT_ONCE)
      if (plans.length > 0) await db.transaction((tx) => enqueueSlots(tx, jobs, plans))
    },
  }
}

/**
 * Reads the plan and locks its row until the transaction ends, so that a concurrent firing sees the result of the
 * first one.
 */
async function lockPlan(tx: Tx, now: Prisma.Sql, planId: string): Promise<PlanRow | null> {
  const [plan] = await tx.$queryRaw<PlanRow[]>`
    SELECT p.id, p."agentId", p.name, p.instruction, p.cron, p."timeZone", p.enabled, p."nextRunAt", p."originId", p.places, p.label, p.askers, a.mind, a.paused, ${now} AS now,
      EXISTS (SELECT 1 FROM "InboxEvent" e WHERE e."agentId" = p."agentId" AND e."doneAt" IS NULL
        AND (e."runId" IS NULL OR e."retryAt" IS NOT NULL) AND e.type = 'PLAN' AND e.payload->>'planId' = p.id) AS waits,
      ${overBudget({ agentId: Prisma.sql`a.id`, spaceId: null, rootId: '', humanId: rootHuman(Prisma.sql`p."originId"`, Prisma.sql`p.askers`) })} AS over
    FROM "Plan" p JOIN "Agent" a ON a.id = p."agentId"
    WHERE p.id = ${planId} FOR UPDATE OF p FOR KEY SHARE OF a`
  return plan ?? null
}

async function fireDue(tx: Tx, platform: Platform, now: Prisma.Sql, planId: string) {
  const plan = scheduled(await lockPlan(tx, now, planId))
  if (plan === null) return null
  if (plan.nextRunAt > plan.now) {
    // The job ran too early, because the clock was set back after the slot was computed.
    await enqueueSlots(tx, platform.jobs, [plan])
    return null
  }
  const { afterCommit } = await wakeOnce(tx, platform, plan, plan.nextRunAt)
  await goOn(tx, platform, plan)
  return { afterCommit }
}

/** Returns the plan if it has a next slot, and null otherwise. */
function scheduled(plan: PlanRow | null): ScheduledPlan | null {
  return plan?.enabled && plan.nextRunAt !== null ? (plan as ScheduledPlan) : null
}

type ScheduledPlan = PlanRow & { nextRunAt: Date }

/** Fires the plan now, even if it is disabled, without changing its slots. */
async function fireNow(tx: Tx, platform: Platform, now: Prisma.Sql, planId: string) {
  const plan = await lockPlan(tx, now, planId)
  if (plan === null) throw new NotFoundError(NO_SUCH_PLAN)
  if (plan.paused) throw new ConflictError('The agent of the plan is paused: resume the agent first (updateAgent).')
  const { firing, afterCommit } = await wakeOnce(tx, platform, plan, plan.now)
  if (firing === null) throw new ConflictError('The plan has already fired for this time: try again.')
  return { firing, afterCommit }
}

/**
 * Wakes the agent for a slot. The slot's row is unique and prevents a second firing, even after a clock was set back.
 */
async function wakeOnce(tx: Tx, platform: Platform, plan: PlanRow, slot: Date) {
  const { id: planId, agentId, name, instruction, mind, originId, now: firedAt } = plan
  const { places, label, askers } = plan
  const isOver = originId !== null && (await hasHadItsFirings(tx, platform, originId, firedAt))
  const result = isOver ? ('LIMIT' as const) : resultOf(plan)
  const firing = { id: newId('plf'), planId, slot, rootId: newId('trg'), result, firedAt, originId }
  const isNew = await insertFiring(tx, firing)
  await deleteFiringsBefore(tx, planId, new Date(firedAt.getTime() - REMEMBERED_MS))
  if (!isNew) return { firing: null, async afterCommit() {} }
  if (firing.result !== 'RUN' && firing.result !== 'INBOX') return { firing, async afterCommit() {} }
  const woken = await wake(
    tx,
    { id: agentId, mind },
    {
      trigger: { type: 'PLAN', planId, name, instruction, provenance: { places, label, askers } },
      key: { once: firingKey(firing) },
      lineage: { rootId: firing.rootId, depth: 0, parentRunId: null },
    },
  )
  return {
    firing,
    async afterCommit() {
      if (woken !== null) await publishWoken(platform, woken)
    },
  }
}

/**
 * Whether plans with the same `originId` have started as many runs within an hour as one root may have. A lock
 * serializes this check, so that the count is exact.
 */
async function hasHadItsFirings(tx: Tx, { config }: Platform, originId: string, now: Date): Promise<boolean> {
  await tx.$executeRaw`SELECT pg_advisory_xact_lock(hashtextextended(${originId}, 0))`
  const since = new Date(now.getTime() - HOUR_MS)
  const fired = await tx.planFiring.count({
    where: { originId, firedAt: { gt: since }, result: { in: ['RUN', 'INBOX'] } },
  })
  return fired >= config.limits.maxRootRuns
}

function resultOf(plan: PlanRow): PlanFiring['result'] {
  if (plan.paused) return 'PAUSED'
  if (overBudgetOf(plan) !== null) return 'OVER_BUDGET'
  if (plan.waits) return 'STILL_WAITING'
  return wayToWake(plan)
}

/** Sets the plan's next slot after the current time. Several missed slots cause only one firing. */
async function goOn(tx: Tx, platform: Platform, { id, cron, timeZone, nextRunAt, now }: ScheduledPlan): Promise<void> {
  const next = cron === null ? null : nextSlot({ cron, timeZone }, Math.max(now.getTime(), nextRunAt.getTime()))
  await setNextSlot(tx, id, next)
  if (next !== null) await enqueueSlots(tx, platform.jobs, [{ id, nextRunAt: next }])
}

/** Returns recurring plans whose next slot was computed with a clock that was ahead of the database's clock. */
function plansPutOff({ prisma }: Database, now: Prisma.Sql): Promise<{ id: string }[]> {
  const ahead = Prisma.sql`${now} + ${AHEAD_MS} * interval '1 millisecond'`
  return prisma.$queryRaw`
    SELECT p.id FROM "Plan" p
    WHERE p.enabled AND p.cron IS NOT NULL AND p."nextRunAt" > ${ahead} AND (
      p."createdAt" > ${ahead}
      OR (SELECT f."firedAt" FROM "PlanFiring" f WHERE f."planId" = p.id ORDER BY f.slot DESC LIMIT 1) > ${ahead})
    LIMIT ${MOST_AT_ONCE}`
}

/**
 * Restores the skipped slots between the current time and the plan's next slot. Slots that have already fired do not
 * fire again.
 */
async function takeBack(tx: Tx, platform: Platform, now: Prisma.Sql, planId: string): Promise<void> {
  const plan = scheduled(await lockPlan(tx, now, planId))
  if (plan === null || plan.cron === null) return
  const next = nextSlot({ cron: plan.cron, timeZone: plan.timeZone }, plan.now.getTime())
  if (next === null || next >= plan.nextRunAt) return
  await setNextSlot(tx, planId, next)
  await enqueueSlots(tx, platform.jobs, [{ id: planId, nextRunAt: next }])
}
