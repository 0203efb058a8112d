import { overBudgetAmong, type PutOff, putOff } from '../agents/inbox-taking.ts'
import type { Run } from '../generated/prisma/client.ts'
import { WHY_OVER_BUDGET } from '../platform/budget-state.ts'
import type { Tx } from '../platform/db.ts'
import type { RunEnding } from '../runs/lifecycle.ts'
import type { OutcomeChanges } from './outcomes.ts'

/** Sets the outcome of messages that wait because a budget is exhausted; admins also see which budget. */
export async function showOverBudget(tx: Tx, events: PutOff[], agentId: string): Promise<void> {
  for (const [over, put] of Map.groupBy(events, ({ over }) => over)) {
    const messageIds = put.flatMap(({ event: { messageId } }) => messageId ?? [])
    await tx.outcome.updateMany({
      where: { messageId: { in: messageIds }, agentId },
      data: { kind: 'OVER_BUDGET', reason: WHY_OVER_BUDGET[over], error: null, runId: null },
    })
  }
}

/**
 * Returns the events of a cycle, ended by a budget before its first step, whose budgets are exhausted. This happens if
 * other runs use up the budget between claim and start.
 */
export async function spentMeanwhile(
  tx: Tx,
  { id: runId, stepCount }: Run,
  { stopReason }: RunEnding,
): Promise<PutOff[]> {
  if (stopReason !== 'OVER_BUDGET' || stepCount > 0) return []
  const taken = await overBudgetAmong(tx, runId)
  return taken.flatMap(({ over, ...event }) => (over === null ? [] : [{ event, over }]))
}

/**
 * Whether all events, with their turns in chains, wait for the next day. Events of a root whose budget is exhausted are
 * done.
 */
export const allWait = (spent: PutOff[]): boolean => spent.length > 0 && spent.every(({ over }) => over !== 'ROOT')

/** Postpones the events of a cycle, or marks them as done, as if the cycle had not claimed them. */
export async function putOffAll(
  tx: Tx,
  { id: runId, agentId }: Run,
  spent: PutOff[],
  changes: OutcomeChanges,
): Promise<boolean> {
  if (spent.length === 0) return false
  for (const { event, over } of await putOff(tx, spent)) {
    const { messageId } = event
    const outcome = { agentId, kind: 'OVER_BUDGET' as const, reason: WHY_OVER_BUDGET[over], runId: null }
    if (messageId !== null) await changes.set({ messageId, ...outcome })
  }
  await tx.inboxEvent.updateMany({ where: { runId, doneAt: null }, data: { runId: null } })
  return true
}
