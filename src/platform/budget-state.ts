import { Prisma, type Run } from '../generated/prisma/client.ts'
import type { Tx } from './db.ts'

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

/** What came of an attempt to reserve. */
export type Reservation =
  | { type: 'reserved' }
  /** That budget is spent. */
  | { type: 'over'; whose: OverBudget }
  /** That budget would be exceeded if all use what they have reserved: others must settle first. Nothing is reserved. */
  | { type: 'waits'; whose: OverBudget }
  /** The run is not this attempt's any more. */
  | { type: 'lost' }

/** What a generation may use, in tokens and nano-dollars. */
export interface Estimate {
  tokens: number
  nanos: number
}

/**
 * Reserves what a run's next generation may use, instead of what the run has reserved before, in one statement under locks of all budgets that hold.
 * Counting the usage (runs/ledger.ts) and claiming the run end a reservation; that of a worker that died lapses with its lease.
 */
export async function reserve(
  tx: Tx,
  { id, attempt }: Pick<Run, 'id' | 'attempt'>,
  { tokens, nanos }: Estimate,
): Promise<Reservation> {
  const [row] = await tx.$queryRaw<{ state: { over?: OverBudget; waitsFor?: OverBudget } | null }[]>`
    SELECT "reserveBudget"(${id}, ${attempt}::int, ${tokens}::float8, ${nanos}::float8) AS state`
  const state = row?.state ?? null
  if (state === null) return { type: 'lost' }
  if (state.over !== undefined) return { type: 'over', whose: state.over }
  return state.waitsFor === undefined ? { type: 'reserved' } : { type: 'waits', whose: state.waitsFor }
}

/** What whoever meets it is told. */
export const WHY_OVER_BUDGET: Record<OverBudget, string> = {
  AGENT: "The agent's budget for today is spent.",
  SPACE: "The space's budget for today is spent.",
  ROOT: 'The budget of the message or trigger that started this is spent.',
}
