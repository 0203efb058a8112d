import type { Plan, Prisma } from '../generated/prisma/client.ts'
import { newId } from '../lib/ids.ts'
import type { Tx } from '../platform/db.ts'

// Contains the statements that write the tables "Plan" and "PlanFiring", except code in operation/ that processes
// many tables generically.

/** Inserts a plan. By default, generates a new `id`; a replay passes the id from the recording. */
export async function insertPlan(
  tx: Pick<Tx, 'plan'>,
  plan: Omit<Prisma.PlanUncheckedCreateInput, 'id'> & { id?: string },
): Promise<Plan> {
  return tx.plan.create({ data: { id: newId('pln'), ...plan } })
}

export async function updatePlan(
  tx: Pick<Tx, 'plan'>,
  id: string,
  data: Prisma.PlanUncheckedUpdateInput,
): Promise<Plan> {
  return tx.plan.update({ where: { id }, data })
}

/** Sets the next slot of a plan; null disables the plan. */
export async function setNextSlot(tx: Pick<Tx, 'plan'>, id: string, nextRunAt: Date | null): Promise<void> {
  await updatePlan(tx, id, { nextRunAt, ...(nextRunAt === null ? { enabled: false } : {}) })
}

/**
 * Deletes plans and their firings. Firings that still count towards the hourly limit of their `originId` are deleted
 * an hour later. Returns the number of deleted plans.
 */
export async function removePlans(tx: Tx, ids: string[]): Promise<number> {
  if (ids.length === 0) return 0
  const { count } = await tx.plan.deleteMany({ where: { id: { in: ids } } })
  await tx.$executeRaw`
    DELETE FROM "PlanFiring" f WHERE ("planId" = ANY(${ids}::text[]) AND "originId" IS NULL)
      OR ("originId" IS NOT NULL AND "firedAt" < clock_timestamp() - interval '1 hour' AND NOT EXISTS (
        SELECT 1 FROM "Plan" p WHERE p.id = f."planId"))`
  return count
}

// Firings (the table "PlanFiring").

/** Records a firing unless its slot has already fired. Returns whether the firing was recorded. */
export async function insertFiring(tx: Tx, firing: Prisma.PlanFiringCreateManyInput): Promise<boolean> {
  const { count } = await tx.planFiring.createMany({ data: [firing], skipDuplicates: true })
  return count > 0
}

export async function deleteFiringsBefore(tx: Tx, planId: string, time: Date): Promise<void> {
  await tx.planFiring.deleteMany({ where: { planId, slot: { lt: time } } })
}

/** Deletes the firings of an agent's plans. The plans themselves are deleted with the agent's row. */
export async function deleteFiringsOfAgent(tx: Tx, agentId: string): Promise<void> {
  await tx.$executeRaw`
    DELETE FROM "PlanFiring" f USING "Plan" p WHERE p."agentId" = ${agentId} AND f."planId" = p.id`
}
