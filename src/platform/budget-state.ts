import { type Message, Prisma, type Run } from '../generated/prisma/client.ts'
import type { OverBudget } from '../lib/budget.ts'
import { prefixOf } from '../lib/ids.ts'
import type { Tx } from './db.ts'

/**
 * The state of all budgets that apply to a generation: the budgets of its agent, its space, its root, and the human at
 * the root.
 */
export interface BudgetState {
  /** An exhausted budget; null if no budget is exhausted. */
  over: OverBudget | null
  /** Whether a limit in USD applies. If it does, a model without a known price must not be called. */
  inUsd: boolean
}

interface Payer {
  agentId: Prisma.Sql | string
  spaceId: Prisma.Sql | string | null
  rootId: Prisma.Sql | string
  /** The human at the root, if the root has no row yet. By default, the human is read from the root's row. */
  humanId?: Prisma.Sql | string | null
  /**
   * The requesters of the run. If the root's message was deleted, and the run has only one requester, that requester is
   * treated as the human at the root.
   */
  requesters?: Prisma.Sql | readonly string[]
}

/**
 * Returns SQL for a column with the current BudgetState; null if no budget applies. Costs a few index lookups, and
 * almost nothing without budgets.
 */
export function budgetState({ agentId, spaceId, rootId, humanId = null, requesters = [] }: Payer): Prisma.Sql {
  const ids = requesters instanceof Prisma.Sql ? requesters : [...requesters]
  return Prisma.sql`"budgetState"(${agentId}, ${spaceId}, ${rootId}, ${humanId}::text, ${ids}::text[])`
}

/**
 * Returns the budgets that pay for the next generation of a run. A think cycle is paid by the space of its deepest
 * event.
 */
export function payerOf(run: Pick<Run, 'agentId' | 'deepestSpaceId' | 'triggerSpaceId' | 'rootId' | 'askers'>): Payer {
  const { agentId, deepestSpaceId, triggerSpaceId, rootId, askers } = run
  return { agentId, spaceId: deepestSpaceId ?? triggerSpaceId, rootId, requesters: askers }
}

/** Returns the root of the runs that a message starts. The message need not have a row yet. */
export function rootOfMessage({ rootId, senderId }: Pick<Message, 'rootId' | 'senderId'>) {
  return { rootId, humanId: prefixOf(senderId) === 'hum' ? senderId : null }
}

/** Returns SQL for the id of the human at the root of a run with these columns; null if there is none. */
export const rootHuman = (rootId: Prisma.Sql, askers: Prisma.Sql): Prisma.Sql =>
  Prisma.sql`"rootHuman"(${rootId}, ${askers})`

/** Returns SQL for the field `over` of the budget state. */
export function overBudget(payer: Payer): Prisma.Sql {
  return Prisma.sql`${budgetState(payer)}->>'over'`
}

/** The result of an attempt to reserve budget. */
export type Reservation =
  | { type: 'reserved' }
  /** The budget is exhausted. */
  | { type: 'over'; whose: OverBudget }
  /**
   * The budget would be exceeded if all reservations were fully used, so this run must wait for other runs. Nothing was
   * reserved.
   */
  | { type: 'waits'; whose: OverBudget }
  /** The run no longer belongs to this attempt. */
  | { type: 'lost' }

/** The maximum usage of a generation, in tokens and in nano-dollars. */
export interface Estimate {
  tokens: number
  nanos: number
}

/**
 * Reserves the estimated usage of a run's next generation. Replaces an earlier reservation of the run. One statement
 * locks all applicable budgets. A reservation ends when the usage is recorded (stores/usage-store.ts) or the run is
 * claimed again. If the worker dies, the reservation expires with the lease.
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
