import { type Mind, Prisma } from '../generated/prisma/client.ts'
import { messageOf } from '../lib/errors.ts'
import { newId } from '../lib/ids.ts'
import type { Database, Tx } from '../platform/db.ts'
import type { ClaimedJob } from '../platform/jobs.ts'
import type { Platform } from '../platform/platform.ts'
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
}

export interface FiringHooks {
  /** Starts the agent's run, or puts the event into its inbox, in the transaction of the slot. */
  wake(tx: Tx, due: DuePlan): Promise<{ afterCommit(): Promise<void> }>
  /** The database's time, in SQL, by which slots are due: tests move it. */
  now?(): Prisma.Sql
}

/** What makes plans go off: once a slot, over all processes, whatever wakes them and however often. */
export interface PlanFiring {
  /** Fires the plan's slot if that is due by the database's clock; a call that is early, late or a second one does no harm. */
  fire(planId: string): Promise<void>
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

interface PlanRow {
  id: string
  agentId: string
  name: string
  instruction: string
  cron: string | null
  nextRunAt: Date
  mind: Mind
  /** By the database's clock. */
  now: Date
}

export function createPlanFiring(platform: Platform, hooks: FiringHooks): PlanFiring {
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
      logger.error({ planId, error: messageOf(error) }, 'a plan could not be fired')
      return false
    }
  }

  async function each(rows: { id: string }[], task: (planId: string) => Promise<void>): Promise<void> {
    for (const { id } of rows) await attempt(id, () => task(id))
  }

  return {
    fire,
    async serve() {
      const claimed = await jobs.claim(MOST_AT_ONCE)
      const done: ClaimedJob[] = []
      for (const job of claimed) {
        // Jobs of another kind are an earlier version's: runs, deadlines and cycles are found by their rows now.
        const isServed = job.wakeUp.type !== 'plan' || (await attempt(job.wakeUp.planId, () => fire(job.wakeUp.planId)))
        if (isServed) done.push(job)
        else await jobs.release(job)
      }
      await jobs.complete(done)
    },
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

/** The row is locked until the transaction ends: of several that fire a plan at once, the others see what the first has done. */
async function lockPlan(tx: Tx, now: Prisma.Sql, planId: string): Promise<PlanRow | null> {
  const [plan] = await tx.$queryRaw<PlanRow[]>`
    SELECT p.id, p."agentId", p.name, p.instruction, p.cron, p."nextRunAt", a.mind, ${now} AS now
    FROM "Plan" p JOIN "Agent" a ON a.id = p."agentId"
    WHERE p.id = ${planId} AND p.enabled AND p."nextRunAt" IS NOT NULL
    FOR UPDATE OF p`
  return plan ?? null
}

async function fireDue(tx: Tx, platform: Platform, hooks: Required<FiringHooks>, planId: string) {
  const plan = await lockPlan(tx, hooks.now(), planId)
  if (plan === null || plan.nextRunAt > plan.now) return null
  const woken = await wakeOnce(tx, hooks, plan)
  await goOn(tx, platform, plan)
  return woken
}

/** The slot's row is what makes a second firing impossible, even where a clock has gone back. */
async function wakeOnce(tx: Tx, hooks: FiringHooks, plan: PlanRow) {
  const { id: planId, agentId, name, instruction, nextRunAt: slot, mind, now: firedAt } = plan
  const rootId = newId('trg')
  const firing = { planId, slot, rootId, firedAt }
  const { count } = await tx.planFiring.createMany({ data: [firing], skipDuplicates: true })
  await tx.planFiring.deleteMany({ where: { planId, slot: { lt: new Date(firedAt.getTime() - REMEMBERED_MS) } } })
  if (count === 0) return null
  return hooks.wake(tx, {
    agent: { id: agentId, mind },
    planId,
    name,
    instruction,
    dedupKey: `${planId}:${slot.toISOString()}`,
    rootId,
  })
}

/** To the next slot after now: those that were missed have fired as one. */
async function goOn(tx: Tx, platform: Platform, { id, cron, nextRunAt, now }: PlanRow): Promise<void> {
  const next = cron === null ? null : nextSlot(cron, Math.max(now.getTime(), nextRunAt.getTime()))
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
  const plan = await lockPlan(tx, now, planId)
  if (plan === null || plan.cron === null) return
  const next = nextSlot(plan.cron, plan.now.getTime())
  if (next === null || next >= plan.nextRunAt) return
  await tx.plan.update({ where: { id: planId }, data: { nextRunAt: next } })
  await enqueue(tx, platform, planId, next)
}
