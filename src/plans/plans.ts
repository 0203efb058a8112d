import type { Viewer } from '../access/viewer.ts'
import type { Plan } from '../generated/prisma/client.ts'
import { BadInputError, ForbiddenError, LimitExceededError, NotFoundError } from '../lib/errors.ts'
import { newId, prefixOf, wellFormedIds } from '../lib/ids.ts'
import { inOrderOf } from '../lib/in-order.ts'
import { checkName, checkText } from '../lib/validate.ts'
import { type Tx, within } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'
import { checkSchedule, type Schedule, type ScheduleInput } from './schedule.ts'

export interface CreatePlanInput {
  agentId: string
  name: string
  instruction: string
  schedule: ScheduleInput
}

/** A plan as its agent sets it. */
export interface PlanInput extends ScheduleInput {
  name: string
  instruction: string
}

/**
 * What wakes agents at a time. An agent's plans differ by name. One that fires once stays, disabled, after it has fired, as
 * long as there is room. They are fired in firing.ts.
 */
export interface Plans {
  /**
   * Admins only. A name may be used again once its plan is over.
   * @throws ForbiddenError, NotFoundError for no agent, BadInputError, LimitExceededError past 100 enabled plans.
   */
  create(viewer: Viewer, input: CreatePlanInput): Promise<Plan>
  /** Admins only: nothing of it fires any more. @throws ForbiddenError, NotFoundError */
  delete(viewer: Viewer, input: { id: string }): Promise<{ deletedPlanId: string }>
  /** By id, in the order of the ids; null where there is none. Says nothing of who may see them. */
  getMany(ids: readonly string[]): Promise<(Plan | null)[]>
  /** Each agent's plans, oldest first; an agent without any is left out. */
  listMany(agentIds: readonly string[]): Promise<Map<string, Plan[]>>
  /**
   * Sets plans of an agent, for the agent itself, all or none; comes back with them. One of the same name is replaced and keeps
   * its id; of a name given twice the last counts. In the caller's transaction where there is one.
   * @throws NotFoundError, BadInputError with `plans.<index>.<field>`, LimitExceededError past 100 enabled plans.
   */
  setOwn(agentId: string, plans: readonly PlanInput[], tx?: Tx): Promise<Plan[]>
  /** Removes plans of an agent by name or id, for the agent itself; comes back with those that there were. */
  deleteOwn(agentId: string, namesOrIds: readonly string[], tx?: Tx): Promise<Plan[]>
}

const MOST_PLANS = 100
const LONGEST_INSTRUCTION = 32_000

/** A plan to be, checked. */
interface NewPlan extends Schedule {
  name: string
  instruction: string
}

export function createPlans(platform: Pick<Platform, 'db' | 'jobs' | 'clock'>): Plans {
  const { db, clock } = platform

  return {
    async create(viewer, { agentId, schedule, ...input }) {
      if (viewer.scope !== 'ADMIN') throw new ForbiddenError('Only an admin can create plans.')
      const plan = checkPlan({ ...input, ...schedule }, clock.now(), 'input.', 'input.schedule.')
      return db.transaction(async (tx) => {
        await lockPlans(tx, agentId)
        const namesake = await tx.plan.findUnique({ where: { agentId_name: { agentId, name: plan.name } } })
        if (namesake?.enabled) throw new BadInputError('The agent has a plan of this name.', 'input.name')
        if (namesake !== null) await remove(tx, [namesake.id])
        const written = await write(tx, platform, agentId, plan)
        await makeRoom(tx, agentId)
        return written
      })
    },
    async delete(viewer, { id }) {
      if (viewer.scope !== 'ADMIN') throw new ForbiddenError('Only an admin can delete plans.')
      if ((await db.transaction((tx) => remove(tx, wellFormedIds([id])))) === 0)
        throw new NotFoundError('There is no such plan.')
      return { deletedPlanId: id }
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
    async setOwn(agentId, given, outer) {
      if (given.length > MOST_PLANS) throw new BadInputError(`At most ${MOST_PLANS} plans.`, 'plans')
      const plans = given.map((plan, index) => checkPlan(plan, clock.now(), `plans.${index}.`, `plans.${index}.`))
      return within(db, outer, async (tx) => {
        await lockPlans(tx, agentId)
        const written: Plan[] = []
        for (const plan of lastOfEachName(plans)) written.push(await write(tx, platform, agentId, plan))
        await makeRoom(tx, agentId)
        return written
      })
    },
    async deleteOwn(agentId, namesOrIds, outer) {
      const chosen = { in: namesOrIds.filter((text) => !text.includes('\0')).map((text) => text.trim().toWellFormed()) }
      return within(db, outer, async (tx) => {
        const plans = await tx.plan.findMany({ where: { agentId, OR: [{ name: chosen }, { id: chosen }] } })
        await remove(
          tx,
          plans.map(({ id }) => id),
        )
        return plans
      })
    },
  }
}

function checkPlan(
  { name, instruction, ...schedule }: PlanInput,
  now: number,
  field: string,
  scheduleField: string,
): NewPlan {
  if (instruction.trim() === '') throw new BadInputError('A plan needs an instruction.', `${field}instruction`)
  return {
    name: checkName(name, `${field}name`),
    instruction: checkText(instruction, LONGEST_INSTRUCTION, `${field}instruction`),
    ...checkSchedule(schedule, now, scheduleField),
  }
}

function lastOfEachName(plans: NewPlan[]): Iterable<NewPlan> {
  return new Map(plans.map((plan) => [plan.name, plan])).values()
}

/** One writer of an agent's plans at a time, so that their number is exact. The agent's other rows stay free. */
async function lockPlans(tx: Tx, agentId: string): Promise<void> {
  const id = prefixOf(agentId) === 'agt' ? agentId : ''
  const [agent] = await tx.$queryRaw<unknown[]>`SELECT 1 FROM "Agent" WHERE id = ${id} FOR NO KEY UPDATE`
  if (agent === undefined) throw new NotFoundError('There is no such agent.')
}

/** The plan, and the job of its first slot. The job of a schedule that it replaces will find nothing due. */
async function write(
  tx: Tx,
  { jobs, clock }: Pick<Platform, 'jobs' | 'clock'>,
  agentId: string,
  plan: NewPlan,
): Promise<Plan> {
  const values = { ...plan, enabled: true, createdAt: new Date(clock.now()) }
  const written = await tx.plan.upsert({
    where: { agentId_name: { agentId, name: plan.name } },
    create: { id: newId('pln'), agentId, ...values },
    update: values,
  })
  await jobs.enqueue(tx, [{ wakeUp: { type: 'plan', planId: written.id }, at: plan.nextRunAt }])
  return written
}

/** Plans that are over make way, the oldest first. @throws LimitExceededError where those that are not are too many. */
async function makeRoom(tx: Tx, agentId: string): Promise<void> {
  const plans = await tx.plan.findMany({
    where: { agentId },
    orderBy: { id: 'asc' },
    select: { id: true, enabled: true },
  })
  const over = plans.filter(({ enabled }) => !enabled)
  if (plans.length - over.length > MOST_PLANS) {
    throw new LimitExceededError(`An agent has at most ${MOST_PLANS} plans: delete some first.`)
  }
  await remove(
    tx,
    over.slice(0, Math.max(0, plans.length - MOST_PLANS)).map(({ id }) => id),
  )
}

/** Removes plans, and what is known of their past slots. Comes back with how many there were. */
async function remove(tx: Tx, ids: string[]): Promise<number> {
  if (ids.length === 0) return 0
  const { count } = await tx.plan.deleteMany({ where: { id: { in: ids } } })
  await tx.planFiring.deleteMany({ where: { planId: { in: ids } } })
  return count
}
