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

/** A slot that wakes its agent. */
export interface DuePlan {
  agent: { id: string; mind: Mind }
  planId: string
  name: string
  instruction: string
  /** The slot's own: it wakes once. */
  dedupKey: string
  /** What the chain of triggers that it begins is known by. */
  rootId: string
  /** The plan's. */
  provenance: Provenance
}

export interface FiringHooks {
  /** Starts the agent's run, or puts the event into its inbox, in the transaction of the slot. */
  wake(tx: Tx, due: DuePlan): Promise<{ afterCommit(): Promise<void> }>
  /** The database's time, in SQL, by which slots are due: tests move it. */
  now?(): Prisma.Sql
}

/** What makes plans go off: once a slot, over all processes, whatever wakes them and however often. */
export interface Firing {
  /** Fires the plan's slot if that is due by the database's clock; a call that is early, late or a second one does no harm. */
  fire(planId: string): Promise<void>
  /**
   * Admins only: fires it beside its slots. An event that still waits is not piled up.
   * @throws ForbiddenError, NotFoundError, ConflictError where its agent is paused
   */
  runNow(viewer: Viewer, input: { id: string }): Promise<PlanFiring>
  /** Serves the jobs of slots whose time has come; one that fails is delivered again after a pause, longer each time. */
  serve(): Promise<void>
  /**
   * Fires what is due and no job has fired, and takes back what a clock that ran ahead has put off. To be called every few
   * seconds by every worker: what a lost job costs is the time until then.
   */
  sweep(): Promise<void>
  /** When plans are due, for whoever serves their jobs then. */
  due: Prisma.Sql
}

/** A firing so far in the future was made by a clock that ran ahead. */
const AHEAD_MS = 5000
/** How long a slot that has fired is remembered. */
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
  /** Its agent: nothing wakes it. */
  paused: boolean
  /** Whose budget is spent, where one is. */
  over: OverBudget | null
  /** Its last event waits in its agent's inbox: no other is put beside it. */
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

  /** One plan's fault is not another's. */
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

/** `fires` says whether it could. Jobs of another kind are an earlier version's: runs, deadlines and cycles are found by their rows now. */
async function serveJobs(jobs: Platform['jobs'], fires: (planId: string) => Promise<boolean>): Promise<void> {
  const done: ClaimedJob[] = []
  for (const job of await jobs.claim(MOST_AT_ONCE)) {
    const isServed = job.wakeUp.type !== 'plan' || (await fires(job.wakeUp.planId))
    if (isServed) done.push(job)
    else await jobs.release(job)
  }
  await jobs.complete(done)
}

/** The row is locked until the transaction ends: of several that fire a plan at once, the others see what the first has done. */
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

/** Null for one that does not fire by itself. */
function scheduled(plan: PlanRow | null): ScheduledPlan | null {
  return plan?.enabled && plan.nextRunAt !== null ? (plan as ScheduledPlan) : null
}

type ScheduledPlan = PlanRow & { nextRunAt: Date }

/** At a time of its own, whether it is enabled or not; its slots stay as they are. */
async function fireNow(tx: Tx, platform: Platform, hooks: Required<FiringHooks>, planId: string) {
  const plan = await lockPlan(tx, hooks.now(), planId)
  if (plan === null) throw new NotFoundError(NO_SUCH_PLAN)
  if (plan.paused) throw new ConflictError('The agent of the plan is paused: resume the agent first (updateAgent).')
  const { firing, afterCommit } = await wakeOnce(tx, platform, hooks, plan, plan.now)
  if (firing === null) throw new ConflictError('The plan already ran at this time: try again.')
  return { firing, afterCommit }
}

/** The slot's row is what makes a second firing impossible, even where a clock has gone back. */
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

/** Whether plans of one origin have set off as much in an hour as a root may; counted one at a time, so that it is exact. */
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

/** What its run, or its event in the inbox, is known by. */
export function firingKey({ planId, slot }: Pick<PlanFiring, 'planId' | 'slot'>): string {
  return `${planId}:${slot.toISOString()}`
}

/** To the next slot after now: those that were missed have fired as one. */
async function goOn(tx: Tx, platform: Platform, { id, cron, timeZone, nextRunAt, now }: ScheduledPlan): Promise<void> {
  const next = cron === null ? null : nextSlot({ cron, timeZone }, Math.max(now.getTime(), nextRunAt.getTime()))
  await tx.plan.update({ where: { id }, data: { nextRunAt: next, enabled: next !== null } })
  if (next !== null) await enqueue(tx, platform, id, next)
}

async function enqueue(tx: Tx, { jobs }: Platform, planId: string, at: Date): Promise<void> {
  await jobs.enqueue(tx, [{ wakeUp: { type: 'plan', planId }, at }])
}

/** Recurring plans that were set, or fired last, by a clock that was ahead of the database's. */
function plansPutOff({ prisma }: Database, now: Prisma.Sql): Promise<{ id: string }[]> {
  const ahead = Prisma.sql`${now} + ${AHEAD_MS} * interval '1 millisecond'`
  return prisma.$queryRaw`
    SELECT p.id FROM "Plan" p
    WHERE p.enabled AND p.cron IS NOT NULL AND p."nextRunAt" > ${ahead} AND (
      p."createdAt" > ${ahead}
      OR (SELECT f."firedAt" FROM "PlanFiring" f WHERE f."planId" = p.id ORDER BY f.slot DESC LIMIT 1) > ${ahead})
    LIMIT ${MOST_AT_ONCE}`
}

/** Slots between now and where the plan stands come after all; those that have fired will not fire again. */
async function takeBack(tx: Tx, platform: Platform, now: Prisma.Sql, planId: string): Promise<void> {
  const plan = scheduled(await lockPlan(tx, now, planId))
  if (plan === null || plan.cron === null) return
  const next = nextSlot({ cron: plan.cron, timeZone: plan.timeZone }, plan.now.getTime())
  if (next === null || next >= plan.nextRunAt) return
  await tx.plan.update({ where: { id: planId }, data: { nextRunAt: next } })
  await enqueue(tx, platform, planId, next)
}
