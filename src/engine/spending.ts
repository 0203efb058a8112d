import type { ModelPrices } from '../config.ts'
import type { Run } from '../generated/prisma/client.ts'
import type { StepPlan } from '../minds/mind.ts'
import { type BudgetState, type OverBudget, overBudget, payerOf, WHY_OVER_BUDGET } from '../platform/budget-state.ts'
import type { Database } from '../platform/db.ts'

/**
 * What budgets leave of a plan, by what was read for it: nothing, where one is spent; of the models those whose price is known, where
 * one is in USD.
 */
export function affordable(
  plan: StepPlan,
  budget: BudgetState | null,
  prices: ModelPrices,
): StepPlan | { error: string } {
  if (budget === null) return plan
  if (budget.over !== null) return { error: WHY_OVER_BUDGET[budget.over] }
  if (!budget.inUsd) return plan
  const [first, ...others] = plan.models.filter((name) => prices.has(name))
  if (first !== undefined) return { ...plan, models: [first, ...others] }
  return { error: `A budget in USD holds, and ${plan.models.join(', ')} has no known price (PARLEY_PRICES).` }
}

/** Why a run may not ask a model once more, as of now; null where it may. */
export async function readOverBudget({ prisma }: Database, run: Run): Promise<string | null> {
  const [row] = await prisma.$queryRaw<{ over: OverBudget | null }[]>`SELECT ${overBudget(payerOf(run))} AS over`
  return row?.over == null ? null : WHY_OVER_BUDGET[row.over]
}
