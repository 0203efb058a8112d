import { overBudgetAmong, type PutOff, putOff } from '../agents/inbox-taking.ts'
import type { Run } from '../generated/prisma/client.ts'
import { WHY_OVER_BUDGET } from '../platform/budget-state.ts'
import type { Tx } from '../platform/db.ts'
import type { RunEnding } from '../runs/lifecycle.ts'
import type { OutcomeChanges } from './outcomes.ts'

/** Whoever sees a message that nobody may think about now sees that it is so, and an admin whose budget is spent. */
export async function showOverBudget(tx: Tx, events: PutOff[], agentId: string): Promise<void> {
  for (const [over, put] of Map.groupBy(events, ({ over }) => over)) {
    const messageIds = put.flatMap(({ event: { messageId } }) => messageId ?? [])
    await tx.outcome.updateMany({
      where: { messageId: { in: messageIds }, agentId },
      data: { kind: 'OVER_BUDGET', reason: WHY_OVER_BUDGET[over], error: null, runId: null },
    })
  }
}

/** Of what a cycle had taken that a budget ended before it had begun: whose budgets are spent. That happens where others spend the last of it in the moment in between. */
export async function spentMeanwhile(
  tx: Tx,
  { id: runId, stepCount }: Run,
  { stopReason }: RunEnding,
): Promise<PutOff[]> {
  if (stopReason !== 'OVER_BUDGET' || stepCount > 0) return []
  const taken = await overBudgetAmong(tx, runId)
  return taken.flatMap(({ over, ...event }) => (over === null ? [] : [{ event, over }]))
}

/** Whether all of that waits for the next day, with its turn in a chain; of a root that is spent it is done. */
export const allWait = (spent: PutOff[]): boolean => spent.length > 0 && spent.every(({ over }) => over !== 'ROOT')

/** Its events wait for the next day, or are done, as if the cycle had not taken them. */
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
