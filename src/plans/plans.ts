import type { Viewer } from '../access/viewer.ts'
import { isKnownTo, isOfLabel, type Marks, type Provenance, UNMARKED } from '../confidentiality/marks.ts'
import { type Plan, Prisma } from '../generated/prisma/client.ts'
import { BadInputError, NotFoundError } from '../lib/errors.ts'
import { prefixOf, wellFormedIds } from '../lib/ids.ts'
import { inOrderOf } from '../lib/in-order.ts'
import { checkName, checkText } from '../lib/validate.ts'
import { inTransaction, type Tx } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'
import { requireAdmin } from '../rules/permissions.ts'
import { checkNumberOfNotes, type NumberedNotes } from '../stores/note-limits.ts'
import { insertPlan, removePlans, updatePlan } from '../stores/plan-store.ts'
import { checkSchedule, checkTimeZone, nextSlot, nextTimes, type Schedule, type ScheduleInput } from './schedule.ts'
import { enqueueSlots } from './slots.ts'

export interface CreatePlanInput {
  agentId: string
  name: string
  instruction: string
  schedule: ScheduleInput
  /** The time zone of the cron schedule. The default is UTC. */
  timeZone?: string | null
}

/** The changes to a plan. Absent fields stay unchanged. */
export interface UpdatePlanInput {
  id: string
  instruction?: string | null
  schedule?: ScheduleInput | null
  timeZone?: string | null
  enabled?: boolean | null
}

/** A plan that an agent creates for itself. */
export interface PlanInput extends ScheduleInput {
  name: string
  instruction: string
  timeZone?: string | null
}

/**
 * Plans wake agents at given times. Their names are unique within an agent. A plan that fires once is disabled after it
 * has fired, and it is kept as long as there is room. `flows/fire-plan.ts` fires plans.
 */
export interface Plans {
  /**
   * Creates a plan. Only admins may do this. The name of a finished plan can be used again.
   * @throws ForbiddenError; NotFoundError for an unknown agent; BadInputError; LimitExceededError above 100 enabled
   * plans
   */
  create(viewer: Viewer, input: CreatePlanInput): Promise<Plan>
  /**
   * Changes a plan. Only admins may do this. A changed schedule or time zone takes effect immediately. When a plan is
   * enabled, the slots that it missed are skipped.
   * @throws ForbiddenError, NotFoundError, BadInputError, which is also thrown if a finished plan is enabled without a
   * new schedule, LimitExceededError if there would be more than 100 enabled plans
   */
  update(viewer: Viewer, input: UpdatePlanInput): Promise<Plan>
  /**
   * Deletes a plan and all its slots. Only admins may do this.
   * @throws ForbiddenError, NotFoundError
   */
  delete(viewer: Viewer, input: { id: string }): Promise<{ deletedPlanId: string }>
  /**
   * Returns the next times, at most five, at which a plan with this schedule would fire if it were created now. @throws
   * BadInputError
   */
  timesOf(schedule: ScheduleInput, timeZone: string | null): Date[]
  /** Returns the next times, at most five, at which a plan will fire. Returns none if the plan is disabled. */
  nextTimesOf(plan: Pick<Plan, 'cron' | 'timeZone' | 'enabled' | 'nextRunAt'>): Date[]
  /** Returns plans in the order of the ids; null for an unknown id. Does not check visibility. */
  getMany(ids: readonly string[]): Promise<(Plan | null)[]>
  /** Returns the plans of each agent, oldest first. The map has no entry for an agent without plans. */
  listMany(agentIds: readonly string[]): Promise<Map<string, Plan[]>>
  /**
   * Writes plans for the agent itself, either all or none, and returns them. A plan with an existing name replaces that
   * plan and keeps its id. If a name is repeated, the last plan with this name is written. `rootId` and `provenance`
   * come from the run. If a plan started the root, the new plans are due after a minute at the earliest.
   * @throws NotFoundError; BadInputError with `plans.<index>.<field>`; LimitExceededError above 100 enabled plans
   */
  setOwn(
    agentId: string,
    plans: readonly PlanInput[],
    by?: { tx?: Tx; rootId?: string; provenance?: Provenance },
  ): Promise<Plan[]>
  /** Deletes plans of the agent itself, by name or id. Returns the deleted plans. */
  deleteOwn(agentId: string, namesOrIds: readonly string[], by?: { tx: Tx; marks: Marks }): Promise<Plan[]>
  /** Returns the plans of an agent that the agent's run may see, oldest first. */
  listKnown(agentId: string, marks: Marks): Promise<Plan[]>
}

const MOST_PLANS = 100
/** The limits for unfinished plans (see `isOver`). */
const PLANS: NumberedNotes = {
  table: 'Plan',
  what: 'plans',
  most: MOST_PLANS,
  counted: Prisma.sql`(enabled OR "nextRunAt" IS NOT NULL)`,
}
const LONGEST_INSTRUCTION = 32_000

/** A validated new plan. */
interface NewPlan extends Schedule, Provenance {
  name: string
  instruction: string
  timeZone: string
  /** The `originId` of the plan's row. */
  originId: string | null
}

export function createPlans(platform: Pick<Platform, 'db' | 'jobs' | 'clock'>): Plans {
  const { db, clock } = platform

  return {
    async create(viewer, { agentId, schedule, ...input }) {
      requireAdmin(viewer, 'create plans')
      const plan = checkPlan({ ...input, ...schedule }, clock.now(), 'input.', 'input.schedule.')
      return db.transaction(async (tx) => {
        await lockPlans(tx, agentId)
        const namesake = await namesakeOf(tx, agentId, plan)
        if (namesake !== null && !isOver(namesake))
          throw new BadInputError('The agent already has a plan with this name.', 'input.name')
        if (namesake !== null) await removePlans(tx, [namesake.id])
        const written = await write(tx, platform, agentId, plan)
        await makeRoom(tx, agentId, UNMARKED)
        return written
      })
    },
    async update(viewer, input) {
      requireAdmin(viewer, 'change plans')
      return db.transaction(async (tx) => {
        const before = await lockPlan(tx, input.id)
        const plan = await updatePlan(tx, before.id, changesOf(input, before, clock.now()))
        if (isOver(before) && !isOver(plan)) await makeRoom(tx, plan.agentId, plan)
        if (plan.enabled && plan.nextRunAt !== null)
          await enqueueSlots(tx, platform.jobs, [{ id: plan.id, nextRunAt: plan.nextRunAt }])
        return plan
      })
    },
    async delete(viewer, { id }) {
      requireAdmin(viewer, 'delete plans')
      await db.transaction(async (tx) => {
        if ((await removePlans(tx, wellFormedIds([id]))) === 0) throw new NotFoundError(NO_SUCH_PLAN)
      })
      return { deletedPlanId: id }
    },
    timesOf(schedule, given) {
      const timeZone = checkTimeZone(given, 'timeZone')
      return nextTimes(checkSchedule(schedule, { now: clock.now(), timeZone }, 'schedule.'), timeZone)
    },
    nextTimesOf({ cron, timeZone, enabled, nextRunAt }) {
      return enabled && nextRunAt !== null ? nextTimes({ cron, nextRunAt }, timeZone) : []
    },
    async getMany(ids) {
      const rows = await db.prisma.plan.findMany({ where: { id: { in: wellFormedIds(ids) } } })
      return inOrderOf(ids, rows)
    },
    async listMany(agentIds) {
      const rows = await db.prisma.plan.findMany({
        where: { agentId: { in: [...agentIds] } },
        orderBy: [{ agentId: 'asc' }, { id: 'asc' }],
      })
      return Map.groupBy(rows, ({ agentId }) => agentId)
    },
    async setOwn(agentId, given, { tx: outer, rootId, provenance = UNMARKED } = {}) {
      const { places, label, askers } = provenance
      if (given.length > MOST_PLANS)
        throw new BadInputError(`One call can create at most ${MOST_PLANS} plans.`, 'plans')
      const plans = given.map((plan, index) => checkPlan(plan, clock.now(), `plans.${index}.`, `plans.${index}.`))
      return inTransaction(db, outer, async (tx) => {
        await lockPlans(tx, agentId)
        const written: Plan[] = []
        const descend = rootId === undefined ? (plan: NewPlan) => plan : await descentFrom(tx, rootId, clock.now())
        for (const plan of lastOfEachName(plans))
          written.push(await write(tx, platform, agentId, { ...descend(plan), places, label, askers }))
        await makeRoom(tx, agentId, { places, label })
        return written
      })
    },
    listKnown: (agentId, marks) =>
      db.prisma.$queryRaw`SELECT * FROM "Plan" WHERE "agentId" = ${agentId} AND ${isKnownTo(marks)} ORDER BY id`,
    async deleteOwn(agentId, namesOrIds, by) {
      const chosen = namesOrIds.filter((text) => !text.includes('\0')).map((text) => text.trim().toWellFormed())
      return inTransaction(db, by?.tx, async (tx) => {
        const plans = await tx.$queryRaw<Plan[]>`
          SELECT * FROM "Plan" WHERE "agentId" = ${agentId} AND (name = ANY(${chosen}::text[]) OR id = ANY(${chosen}::text[]))
            AND ${by === undefined ? Prisma.sql`true` : isKnownTo(by.marks)} ORDER BY id`
        await removePlans(
          tx,
          plans.map(({ id }) => id),
        )
        return plans
      })
    },
  }
}

export const NO_SUCH_PLAN = 'There is no such plan.'

/**
 * Whether the plan has fired for the last time, so that a new plan can replace it. A plan that an admin disabled is not
 * finished.
 */
function isOver({ enabled, nextRunAt }: Pick<Plan, 'enabled' | 'nextRunAt'>): boolean {
  return !enabled && nextRunAt === null
}

function checkPlan(
  { name, instruction, timeZone: zone, ...schedule }: PlanInput,
  now: number,
  field: string,
  scheduleField: string,
): NewPlan {
  const timeZone = checkTimeZone(zone, `${field}timeZone`)
  return {
    name: checkName(name, `${field}name`),
    instruction: checkInstruction(instruction, `${field}instruction`),
    timeZone,
    originId: null,
    ...UNMARKED,
    ...checkSchedule(schedule, { now, timeZone }, scheduleField),
  }
}

function checkInstruction(instruction: string, field: string): string {
  if (instruction.trim() === '') throw new BadInputError('A plan needs an instruction.', field)
  return checkText(instruction, LONGEST_INSTRUCTION, field)
}

/** @throws BadInputError */
function changesOf(input: UpdatePlanInput, before: Plan, now: number): Partial<Plan> {
  for (const field of ['instruction', 'schedule', 'timeZone', 'enabled'] as const)
    if (input[field] === null)
      throw new BadInputError('Must not be null; omit the field to keep its current value.', `input.${field}`)
  const { instruction, schedule, timeZone: zone, enabled = before.enabled } = input
  const timeZone = zone == null ? before.timeZone : checkTimeZone(zone, 'input.timeZone')
  const isAnew = schedule != null || zone != null || (enabled && !before.enabled)
  const cron = before.cron === null ? {} : { cron: before.cron }
  const asBefore = before.cron === null ? before : checkSchedule(cron, { now, timeZone }, 'input.')
  const next = schedule == null ? asBefore : checkSchedule(schedule, { now, timeZone }, 'input.schedule.')
  if (enabled && isAnew && (next.nextRunAt === null || next.nextRunAt.getTime() <= now))
    throw new BadInputError('The plan has no future time: set a new schedule.', 'input.schedule')
  return {
    timeZone,
    enabled: enabled === true,
    ...(instruction == null ? {} : { instruction: checkInstruction(instruction, 'input.instruction') }),
    ...(isAnew ? { cron: next.cron, nextRunAt: next.nextRunAt, createdAt: new Date(now) } : {}),
  }
}

/** The minimum delay of a plan that is created by a plan's run. */
const LEAST_DELAY_MS = 60_000

/** Returns a function that adjusts new plans under this root. */
async function descentFrom(tx: Tx, rootId: string, now: number): Promise<(plan: NewPlan) => NewPlan> {
  const firing = await tx.planFiring.findFirst({ where: { rootId } })
  if (firing === null) return (plan) => ({ ...plan, originId: rootId })
  const originId = firing.originId ?? firing.planId
  const earliest = now + LEAST_DELAY_MS
  return ({ nextRunAt, ...plan }) => {
    const { cron, timeZone } = plan
    const isSoon = nextRunAt.getTime() < earliest
    const later = (cron === null ? null : nextSlot({ cron, timeZone }, earliest - 1)) ?? new Date(earliest)
    return { ...plan, originId, nextRunAt: isSoon ? later : nextRunAt }
  }
}

function lastOfEachName(plans: NewPlan[]): Iterable<NewPlan> {
  return new Map(plans.map((plan) => [plan.name, plan])).values()
}

/**
 * Makes transactions that write an agent's plans run one at a time, so that the number of plans is exact. Does not lock
 * other rows of the agent.
 */
async function lockPlans(tx: Tx, agentId: string): Promise<void> {
  const id = prefixOf(agentId) === 'agt' ? agentId : ''
  const [agent] = await tx.$queryRaw<unknown[]>`SELECT 1 FROM "Agent" WHERE id = ${id} FOR NO KEY UPDATE`
  if (agent === undefined) throw new NotFoundError('There is no such agent.')
}

/** Locks the agent's plans and then one of them, in the same order as all writers. @throws NotFoundError */
async function lockPlan(tx: Tx, id: string): Promise<Plan> {
  const found = await tx.plan.findFirst({ where: { id: { in: wellFormedIds([id]) } }, select: { agentId: true } })
  if (found === null) throw new NotFoundError(NO_SUCH_PLAN)
  await lockPlans(tx, found.agentId)
  const [plan] = await tx.$queryRaw<Plan[]>`SELECT * FROM "Plan" WHERE id = ${id} FOR UPDATE`
  if (plan === undefined) throw new NotFoundError(NO_SUCH_PLAN)
  return plan
}

/** Returns the plan with the same name and the same label, if there is one. */
async function namesakeOf(tx: Tx, agentId: string, { name, places, label }: NewPlan): Promise<Plan | null> {
  const [plan] = await tx.$queryRaw<Plan[]>`
    SELECT * FROM "Plan" WHERE "agentId" = ${agentId} AND name = ${name} AND ${isOfLabel({ places, label })} LIMIT 1`
  return plan ?? null
}

/**
 * Writes the plan and the job of its first slot. If the schedule was replaced, the job of the old schedule has no
 * effect.
 */
async function write(
  tx: Tx,
  { jobs, clock }: Pick<Platform, 'jobs' | 'clock'>,
  agentId: string,
  plan: NewPlan,
): Promise<Plan> {
  const { places, label, askers } = plan
  const provenance = { places: [...places], label: [...label], askers: [...askers] }
  const values = { ...plan, ...provenance, enabled: true, createdAt: new Date(clock.now()) }
  const before = await namesakeOf(tx, agentId, plan)
  const written =
    before === null ? await insertPlan(tx, { agentId, ...values }) : await updatePlan(tx, before.id, values)
  await enqueueSlots(tx, jobs, [{ id: written.id, nextRunAt: plan.nextRunAt }])
  return written
}

/**
 * Deletes finished plans, oldest first, among those that the writer may see. @throws LimitExceededError if too many plans are
 * unfinished
 */
async function makeRoom(tx: Tx, agentId: string, marks: Marks): Promise<void> {
  await checkNumberOfNotes(tx, PLANS, { agentId, marks })
  const plans = await tx.$queryRaw<Pick<Plan, 'id' | 'enabled' | 'nextRunAt'>[]>`
    SELECT id, enabled, "nextRunAt" FROM "Plan" WHERE "agentId" = ${agentId} AND ${isKnownTo(marks)} ORDER BY id`
  const over = plans.filter(isOver)
  await removePlans(
    tx,
    over.slice(0, Math.max(0, plans.length - MOST_PLANS)).map(({ id }) => id),
  )
}
