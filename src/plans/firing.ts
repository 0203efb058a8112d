import type { Viewer } from '../access/viewer.ts'
import type { Provenance } from '../confidence/marks.ts'
import { type Mind, type PlanFiring, Prisma } from '../generated/prisma/client.ts'
import { ConflictError, ForbiddenError, messageOf, NotFoundError } from '../lib/errors.ts'
import { newId, prefixOf } from '../lib/ids.ts'
import { type OverBudget, overBudget } from '../platform/budget-state.ts'
import type { Database, Tx } from '../platform/db.ts'
import type { ClaimedJob } from '../platform/jobs.ts'
import type { Platform } from '../platform/platform.ts'
import { NO_SUCH_PLAN } from './plans.ts'
import { nextSlot } from './schedule.ts'

/** A slot of a plan that is due. */
export interface DuePlan {
  agent: { id: string; mind: Mind }
  planId: string
  name: string
  instruction: string
  /** The key of the slot, with which it wakes the agent at most once. */
  dedupKey: string
  /** The id of the root that the slot starts. */
  rootId: string
  /** The marks and requesters of the plan. */
  provenance: Provenance
}

export interface FiringHooks {
  /** Starts the agent's run, or adds the event to its inbox, in the transaction that records the firing. */
  wake(tx: Tx, due: DuePlan): Promise<{ afterCommit(): Promise<void> }>
  /** SQL for the database's time, by which slots are due; tests replace it. */
  now?(): Prisma.Sql
}

/** Fires plans: each slot once over all processes, however often a slot is checked. */
export interface Firing {
  /**
   * Fires the slot of the plan if the slot is due by the database's clock. Calls that are early, late or repeated have
   * no effect.
   */
  fire(planId: string): Promise<void>
  /**
   * Admins only: fires the plan in addition to its slots. Adds no event while one still waits.
   * @throws ForbiddenError, NotFoundError, ConflictError if the agent is paused
   */
  runNow(viewer: Viewer, input: { id: string }): Promise<PlanFiring>
  /** Processes the jobs of due slots. A job that fails is delivered again after an increasing delay. */
  serve(): Promise<void>
  /**
   * Fires due slots whose job was lost, and restores slots that a clock running ahead has postponed. Every worker calls
   * it every few seconds, which bounds the delay caused by a lost job.
   */
  sweep(): Promise<void>
  /** When plans are due, for the timer that serves their jobs. */
  due: Prisma.Sql
}

/** A firing this far in the future was written by a clock that ran ahead. */
const AHEAD_MS = 5000
/** How long firings are kept. */
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
  /** The agent is paused. */
  paused: boolean
  /** The exhausted budget, if any. */
  over: OverBudget | null
  /** The last event of the plan still waits in the inbox, so no other is added. */
  waits: boolean
  /** By the database's clock. */
  now: Date
}

export function createPlanFiring(platform: Platform, hooks: FiringHooks): Firing {
  const { db, jobs, logger } = platform
  const { now = () => Prisma.sql`clock_timestamp()` } = hooks

  async function fire(planId: string): Promise<void> {
    const woken = await db.transaction((tx) => fireDue(tx, platform, { ...hooks, now }, planId))
    await woken?.afterCommit()
  }

  /** Isolates the failures of plans from each other. */
  async function attempt(planId: string, task: () => Promise<void>): Promise<boolean> {
    try {
      await task()
      return true
    } catch (error) {
      logger.error({ planId, error: messageOf(error) }, 'could not fire a plan')
      return false
    }
  }

  async function each(rows: { id: string }[], task: (planId: string) => Promise<void>): Promise<void> {
    for (const { id } of rows) await attempt(id, () => task(id))
  }

  return {
    fire,
    async runNow(viewer, { id: planId }) {
      if (viewer.scope !== 'ADMIN') throw new ForbiddenError('Only an admin can run plans.')
      if (prefixOf(planId) !== 'pln') throw new NotFoundError(NO_SUCH_PLAN)
      const { firing, afterCommit } = await db.transaction((tx) => fireNow(tx, platform, { ...hooks, now }, planId))
      await afterCommit()
      return firing
    },
    serve: () => serveJobs(jobs, (planId) => attempt(planId, () => fire(planId))),
    async sweep() {
      await each(await plansPutOff(db, now()), (planId) =>
        db.transaction((tx) => takeBack(tx, platform, now(), planId)),
      )
      const due = await db.prisma.$queryRaw<{ id: string }[]>`
        SELECT id FROM "Plan" WHERE enabled AND "nextRunAt" <= ${now()} ORDER BY "nextRunAt" LIMIT ${MOST_AT_ONCE}`
      await each(due, fire)
    },
    due: Prisma.sql`SELECT id, "nextRunAt" AS at FROM "Plan" WHERE enabled AND "nextRunAt" IS NOT NULL`,
  }
}

/**
 * `fires` returns whether the plan could be fired. Jobs of other kinds come from an earlier version and are completed
 * without effect.
 */
async function serveJobs(jobs: Platform['jobs'], fires: (planId: string) => Promise<boolean>): Promise<void> {
  const done: ClaimedJob[] = []
  for (const job of await jobs.claim(MOST_AT_ONCE)) {
    const isServed = job.wakeUp.type !== 'plan' || (await fires(job.wakeUp.planId))
    if (isServed) done.push(job)
    else await jobs.release(job)
  }
  await jobs.complete(done)
}

/**
 * Reads the plan and locks its row until the transaction ends, so that concurrent firings see the result of the first.
 */
async function lockPlan(tx: Tx, now: Prisma.Sql, planId: string): Promise<PlanRow | null> {
  const [plan] = await tx.$queryRaw<PlanRow[]>`
    SELECT p.id, p."agentId", p.name, p.instruction, p.cron, p."timeZone", p.enabled, p."nextRunAt", p."originId", p.places, p.label, p.askers, a.mind, a.paused, ${now} AS now,
      EXISTS (SELECT 1 FROM "InboxEvent" e WHERE e."agentId" = p."agentId" AND e."doneAt" IS NULL
        AND (e."runId" IS NULL OR e."retryAt" IS NOT NULL) AND e.type = 'PLAN' AND e.payload->>'planId' = p.id) AS waits,
      ${overBudget({ agentId: Prisma.sql`a.id`, spaceId: null, rootId: '' })} AS over
    FROM "Plan" p JOIN "Agent" a ON a.id = p."agentId"
    WHERE p.id = ${planId} FOR UPDATE OF p FOR KEY SHARE OF a`
  return plan ?? null
}

async function fireDue(tx: Tx, platform: Platform, hooks: Required<FiringHooks>, planId: string) {
  const plan = scheduled(await lockPlan(tx, hooks.now(), planId))
  if (plan === null || plan.nextRunAt > plan.now) return null
  const { afterCommit } = await wakeOnce(tx, platform, hooks, plan, plan.nextRunAt)
  await goOn(tx, platform, plan)
  return { afterCommit }
}

/** Returns the plan if it has a next slot; null otherwise. */
function scheduled(plan: PlanRow | null): ScheduledPlan | null {
  return plan?.enabled && plan.nextRunAt !== null ? (plan as ScheduledPlan) : null
}

type ScheduledPlan = PlanRow & { nextRunAt: Date }

/** Fires the plan now, even if it is disabled. Does not change its slots. */
async function fireNow(tx: Tx, platform: Platform, hooks: Required<FiringHooks>, planId: string) {
  const plan = await lockPlan(tx, hooks.now(), planId)
  if (plan === null) throw new NotFoundError(NO_SUCH_PLAN)
  if (plan.paused) throw new ConflictError('The agent of the plan is paused: resume the agent first (updateAgent).')
  const { firing, afterCommit } = await wakeOnce(tx, platform, hooks, plan, plan.now)
  if (firing === null) throw new ConflictError('The plan already ran at this time: try again.')
  return { firing, afterCommit }
}

/** The unique row of the slot prevents a second firing, even if a clock was set back. */
async function wakeOnce(tx: Tx, platform: Platform, hooks: FiringHooks, plan: PlanRow, slot: Date) {
  const { id: planId, agentId, name, instruction, mind, originId, now: firedAt } = plan
  const { places, label, askers } = plan
  const isOver = originId !== null && (await hasHadItsFirings(tx, platform, originId, firedAt))
  const result = isOver ? ('LIMIT' as const) : resultOf(plan)
  const firing = { id: newId('plf'), planId, slot, rootId: newId('trg'), result, firedAt, originId }
  const { count } = await tx.planFiring.createMany({ data: [firing], skipDuplicates: true })
  await tx.planFiring.deleteMany({ where: { planId, slot: { lt: new Date(firedAt.getTime() - REMEMBERED_MS) } } })
  if (count === 0) return { firing: null, async afterCommit() {} }
  if (firing.result !== 'RUN' && firing.result !== 'INBOX') return { firing, async afterCommit() {} }
  const { afterCommit } = await hooks.wake(tx, {
    agent: { id: agentId, mind },
    planId,
    name,
    instruction,
    dedupKey: firingKey(firing),
    rootId: firing.rootId,
    provenance: { places, label, askers },
  })
  return { firing, afterCommit }
}

/**
 * Whether plans of one origin have started as many runs within an hour as a root may. Serialised by a lock, so that the
 * count is exact.
 */
async function hasHadItsFirings(tx: Tx, { config }: Platform, originId: string, now: Date): Promise<boolean> {
  await tx.$executeRaw`SELECT pg_advisory_xact_lock(hashtextextended(${originId}, 0))`
  const since = new Date(now.getTime() - HOUR_MS)
  const fired = await tx.planFiring.count({
    where: { originId, firedAt: { gt: since }, result: { in: ['RUN', 'INBOX'] } },
  })
  return fired >= config.limits.maxRootRuns
}

function resultOf({ paused, over, waits, mind }: PlanRow): PlanFiring['result'] {
  if (paused) return 'PAUSED'
  if (over !== null && mind === 'STATELESS') return 'OVER_BUDGET'
  if (waits) return 'STILL_WAITING'
  return mind === 'STATELESS' ? 'RUN' : 'INBOX'
}

/** The key of a firing's run or inbox event. */
export function firingKey({ planId, slot }: Pick<PlanFiring, 'planId' | 'slot'>): string {
  return `${planId}:${slot.toISOString()}`
}

/** Sets the next slot after now. All missed slots have fired as one. */
async function goOn(tx: Tx, platform: Platform, { id, cron, timeZone, nextRunAt, now }: ScheduledPlan): Promise<void> {
  const next = cron === null ? null : nextSlot({ cron, timeZone }, Math.max(now.getTime(), nextRunAt.getTime()))
  await tx.plan.update({ where: { id }, data: { nextRunAt: next, enabled: next !== null } })
  if (next !== null) await enqueue(tx, platform, id, next)
}

async function enqueue(tx: Tx, { jobs }: Platform, planId: string, at: Date): Promise<void> {
  await jobs.enqueue(tx, [{ wakeUp: { type: 'plan', planId }, at }])
}

/** Returns recurring plans whose next slot was computed by a clock ahead of the database's. */
function plansPutOff({ prisma }: Database, now: Prisma.Sql): Promise<{ id: string }[]> {
  const ahead = Prisma.sql`${now} + ${AHEAD_MS} * interval '1 millisecond'`
  return prisma.$queryRaw`
    SELECT p.id FROM "Plan" p
    WHERE p.enabled AND p.cron IS NOT NULL AND p."nextRunAt" > ${ahead} AND (
      p."createdAt" > ${ahead}
      OR (SELECT f."firedAt" FROM "PlanFiring" f WHERE f."planId" = p.id ORDER BY f.slot DESC LIMIT 1) > ${ahead})
    LIMIT ${MOST_AT_ONCE}`
}

/** Restores the slots between now and the plan's next slot; slots that have fired do not fire again. */
async function takeBack(tx: Tx, platform: Platform, now: Prisma.Sql, planId: string): Promise<void> {
  const plan = scheduled(await lockPlan(tx, now, planId))
  if (plan === null || plan.cron === null) return
  const next = nextSlot({ cron: plan.cron, timeZone: plan.timeZone }, plan.now.getTime())
  if (next === null || next >= plan.nextRunAt) return
  await tx.plan.update({ where: { id: planId }, data: { nextRunAt: next } })
  await enqueue(tx, platform, planId, next)
}
