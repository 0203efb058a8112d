import type { Mind } from '../generated/prisma/client.ts'
import { messageOf } from '../lib/errors.ts'
import { newId } from '../lib/ids.ts'
import type { Tx } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'
import { nextSlot } from './schedule.ts'

/** A slot that wakes its agent. */
export interface DuePlan {
  agent: { id: string; mind: Mind; maxConcurrentRuns: number }
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
}

/** What makes plans go off: once a slot, over all processes, whatever wakes them and however often. */
export interface PlanFiring {
  /** A job of the plan has come. Fires its slot if that is due; a job that is early, late or a second one does no harm. */
  fire(planId: string): Promise<void>
  /**
   * Fires what is due and no job has fired, and takes back what a clock that ran ahead has put off. To be called every few
   * seconds by every worker: what a lost job costs is the time until then.
   */
  sweep(): Promise<void>
}

/** A job that comes so much too early, by this process's clock, is put off; an earlier one belongs to another slot. */
const EARLY_MS = 5000
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
  maxConcurrentRuns: number
  /** The time by which the queue delays its jobs. */
  databaseNow: Date
}

export function createPlanFiring(platform: Platform, hooks: FiringHooks): PlanFiring {
  const { db, clock, logger } = platform

  async function fire(planId: string): Promise<void> {
    const woken = await db.transaction((tx) => fireDue(tx, platform, hooks, planId))
    await woken?.afterCommit()
  }

  /** One plan's fault is not another's. */
  async function each(planIds: string[], task: (planId: string) => Promise<void>): Promise<void> {
    for (const planId of planIds) {
      await task(planId).catch((error) =>
        logger.error({ planId, error: messageOf(error) }, 'a plan could not be fired'),
      )
    }
  }

  return {
    fire,
    async sweep() {
      const now = new Date(clock.now())
      await each(await plansPutOff(platform, now), (planId) => db.transaction((tx) => takeBack(tx, platform, planId)))
      const due = await db.prisma.plan.findMany({
        where: { enabled: true, nextRunAt: { lte: now } },
        orderBy: { nextRunAt: 'asc' },
        select: { id: true },
        take: MOST_AT_ONCE,
      })
      await each(
        due.map(({ id }) => id),
        fire,
      )
    },
  }
}

/** The row is locked until the transaction ends: of several that fire a plan at once, the others see what the first has done. */
async function lockPlan(tx: Tx, planId: string): Promise<PlanRow | null> {
  const [plan] = await tx.$queryRaw<PlanRow[]>`
    SELECT p.id, p."agentId", p.name, p.instruction, p.cron, p."nextRunAt", a.mind, a."maxConcurrentRuns",
      clock_timestamp() AS "databaseNow"
    FROM "Plan" p JOIN "Agent" a ON a.id = p."agentId"
    WHERE p.id = ${planId} AND p.enabled AND p."nextRunAt" IS NOT NULL
    FOR UPDATE OF p`
  return plan ?? null
}

async function fireDue(tx: Tx, platform: Platform, hooks: FiringHooks, planId: string) {
  const plan = await lockPlan(tx, planId)
  if (plan === null) return null
  const now = platform.clock.now()
  const earlyMs = plan.nextRunAt.getTime() - now
  if (earlyMs > 0) {
    if (earlyMs <= EARLY_MS) await enqueue(tx, platform, planId, new Date(plan.databaseNow.getTime() + earlyMs))
    return null
  }
  const woken = await wakeOnce(tx, hooks, plan, new Date(now))
  await goOn(tx, platform, plan, now)
  return woken
}

/** The slot's row is what makes a second firing impossible, even where a clock has gone back. */
async function wakeOnce(tx: Tx, hooks: FiringHooks, plan: PlanRow, firedAt: Date) {
  const { id: planId, agentId, name, instruction, nextRunAt: slot, mind, maxConcurrentRuns } = plan
  const rootId = newId('trg')
  const firing = { planId, slot, rootId, firedAt }
  const { count } = await tx.planFiring.createMany({ data: [firing], skipDuplicates: true })
  await tx.planFiring.deleteMany({ where: { planId, slot: { lt: new Date(firedAt.getTime() - REMEMBERED_MS) } } })
  if (count === 0) return null
  const agent = { id: agentId, mind, maxConcurrentRuns }
  return hooks.wake(tx, { agent, planId, name, instruction, dedupKey: `${planId}:${slot.toISOString()}`, rootId })
}

/** To the next slot after now: those that were missed have fired as one. */
async function goOn(tx: Tx, platform: Platform, { id, cron, nextRunAt }: PlanRow, now: number): Promise<void> {
  const next = cron === null ? null : nextSlot(cron, Math.max(now, nextRunAt.getTime()))
  await tx.plan.update({ where: { id }, data: { nextRunAt: next, enabled: next !== null } })
  if (next !== null) await enqueue(tx, platform, id, next)
}

async function enqueue(tx: Tx, { jobs }: Platform, planId: string, at: Date): Promise<void> {
  await jobs.enqueue(tx, [{ wakeUp: { type: 'plan', planId }, at }])
}

/** Recurring plans that were set, or fired last, by a clock that was ahead of this one. */
async function plansPutOff({ db }: Platform, now: Date): Promise<string[]> {
  const ahead = new Date(now.getTime() + AHEAD_MS)
  const rows = await db.prisma.$queryRaw<{ id: string }[]>`
    SELECT p.id FROM "Plan" p
    WHERE p.enabled AND p.cron IS NOT NULL AND p."nextRunAt" > ${ahead} AND (
      p."createdAt" > ${ahead}
      OR (SELECT f."firedAt" FROM "PlanFiring" f WHERE f."planId" = p.id ORDER BY f.slot DESC LIMIT 1) > ${ahead})
    LIMIT ${MOST_AT_ONCE}`
  return rows.map(({ id }) => id)
}

/** Slots between now and where the plan stands come after all; those that have fired will not fire again. */
async function takeBack(tx: Tx, platform: Platform, planId: string): Promise<void> {
  const plan = await lockPlan(tx, planId)
  if (plan === null || plan.cron === null) return
  const next = nextSlot(plan.cron, platform.clock.now())
  if (next === null || next >= plan.nextRunAt) return
  await tx.plan.update({ where: { id: planId }, data: { nextRunAt: next } })
  await enqueue(tx, platform, planId, next)
}
