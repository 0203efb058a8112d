import { Prisma, type Run } from '../generated/prisma/client.ts'

/** Whose budget is spent. */
export type OverBudget = 'AGENT' | 'SPACE' | 'ROOT'

/** What budgets say of a generation: those of its agent, of the space that it counts for, and of its root. */
export interface BudgetState {
  /** Null: none is spent. */
  over: OverBudget | null
  /** A limit in USD holds: a model without a known price is not run. */
  inUsd: boolean
}

interface Payer {
  agentId: Prisma.Sql | string
  spaceId: Prisma.Sql | string | null
  rootId: Prisma.Sql | string
}

/** As a column: a BudgetState as of this statement, null where no budget holds. A few steps of indexes; none has one: nearly nothing. */
export function budgetState({ agentId, spaceId, rootId }: Payer): Prisma.Sql {
  return Prisma.sql`"budgetState"(${agentId}, ${spaceId}, ${rootId})`
}

/** What its next generation counts for: a cycle's for the space of its deepest event. */
export function payerOf(run: Pick<Run, 'agentId' | 'deepestSpaceId' | 'triggerSpaceId' | 'rootId'>): Payer {
  const { agentId, deepestSpaceId, triggerSpaceId, rootId } = run
  return { agentId, spaceId: deepestSpaceId ?? triggerSpaceId, rootId }
}

/** Its `over` alone. */
export function overBudget(payer: Payer): Prisma.Sql {
  return Prisma.sql`${budgetState(payer)}->>'over'`
}

/** What whoever meets it is told. */
export const WHY_OVER_BUDGET: Record<OverBudget, string> = {
  AGENT: "The agent's budget for today is spent.",
  SPACE: "The space's budget for today is spent.",
  ROOT: 'The budget of what began this is spent.',
}
