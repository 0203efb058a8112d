import { type Message, Prisma, type Run } from '../generated/prisma/client.ts'
import type { OverBudget } from '../lib/budget.ts'
import { prefixOf } from '../lib/ids.ts'
import type { Tx } from './db.ts'

/** The budgets that apply to a generation: those of its agent, of the space that it counts for, of its root, and of the human at the root. */
export interface BudgetState {
  /** Null: none is exhausted. */
  over: OverBudget | null
  /** A limit in USD applies, so a model without a known price must not run. */
  inUsd: boolean
}

interface Payer {
  agentId: Prisma.Sql | string
  spaceId: Prisma.Sql | string | null
  rootId: Prisma.Sql | string
  /** The human at the root, if the root has no row yet. If absent, the human is looked up by the root. */
  humanId?: Prisma.Sql | string | null
  /** The requesters of the run: if the root's message was deleted and there is only one, that one counts. */
  requesters?: Prisma.Sql | readonly string[]
}

/**
 * A column with the BudgetState as of this statement; null if no budget applies. Costs a few index lookups, and nearly
 * nothing without budgets.
 */
export function budgetState({ agentId, spaceId, rootId, humanId = null, requesters = [] }: Payer): Prisma.Sql {
  const ids = requesters instanceof Prisma.Sql ? requesters : [...requesters]
  return Prisma.sql`"budgetState"(${agentId}, ${spaceId}, ${rootId}, ${humanId}::text, ${ids}::text[])`
}

/** Returns the budgets that the next generation of a run counts against. A cycle counts against the space of its deepest event. */
export function payerOf(run: Pick<Run, 'agentId' | 'deepestSpaceId' | 'triggerSpaceId' | 'rootId' | 'askers'>): Payer {
  const { agentId, deepestSpaceId, triggerSpaceId, rootId, askers } = run
  return { agentId, spaceId: deepestSpaceId ?? triggerSpaceId, rootId, requesters: askers }
}

/** Returns the root of the runs that a message starts; the message may have no row yet. */
export function rootOfMessage({ rootId, senderId }: Pick<Message, 'rootId' | 'senderId'>) {
  return { rootId, humanId: prefixOf(senderId) === 'hum' ? senderId : null }
}

/** The id of the human at the root of a run with these columns; null if there is none. */
export const rootHuman = (rootId: Prisma.Sql, askers: Prisma.Sql): Prisma.Sql =>
  Prisma.sql`"rootHuman"(${rootId}, ${askers})`

/** Only `over` of the budget state. */
export function overBudget(payer: Payer): Prisma.Sql {
  return Prisma.sql`${budgetState(payer)}->>'over'`
}

/** The result of an attempt to reserve budget. */
export type Reservation =
  | { type: 'reserved' }
  /** The budget is exhausted. */
  | { type: 'over'; whose: OverBudget }
  /** The budget would be exceeded if all reservations were used, so others must settle first. Nothing was reserved. */
  | { type: 'waits'; whose: OverBudget }
  /** The run no longer belongs to this attempt. */
  | { type: 'lost' }

/** The maximum that a generation may use, in tokens and nano-dollars. */
export interface Estimate {
  tokens: number
  nanos: number
}

/**
 * Reserves the estimate of a run's next generation in place of the run's earlier reservation, in one statement that
 * locks all budgets that apply. Recording the usage (stores/usage-store.ts) and claiming the run end a reservation; a dead
 * worker's reservation expires with its lease.
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
