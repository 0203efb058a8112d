import type { ModelMessage } from 'ai'
import { sourceNameOf } from '../agents/inbox-source.ts'
import type { Run } from '../generated/prisma/client.ts'
import { estimateTokens } from '../lib/token-estimate.ts'
import type { Tx } from '../platform/db.ts'
import { type EndFacts, type EndPlan, isRefused, type RunEnding } from '../rules/run-end.ts'
import {
  acceptedMessages,
  type CycleInput,
  cycleInputOf,
  lastingMessages,
  outlineOf,
} from '../runs/cycle-transcript.ts'
import { type JournaledStep, journaledSteps } from '../runs/journal.ts'
import { countCycle, setRestSql } from '../stores/agent-store.ts'
import { deleteCallsOfRun } from '../stores/call-store.ts'
import { insertCycle } from '../stores/cycle-store.ts'
import { claimedEvents, deleteGoneEvents, retryNowSql } from '../stores/inbox-store.ts'
import { rollBackCycleSql } from '../stores/usage-store.ts'

// Applies the effects that the end of a think cycle has on its agent, in the transaction that ends the cycle. Their
// cost does not depend on the number of earlier cycles.

/**
 * Sets the pause before the agent's next cycle. After a successful cycle, which shows that the model provider
 * responds, also ends the delay of events that wait for a retry. Locks the agent's row until the transaction ends.
 * Claims of cycles use the same lock, so either this transaction or the next claim sees each new event.
 */
export async function restAgent(tx: Tx, { agentId, status }: Run, restMs: number): Promise<void> {
  await tx.$executeRaw`
    WITH back AS (
      ${retryNowSql(agentId, status === 'COMPLETED')}
    )
    ${setRestSql(agentId, restMs)}`
}

/** Deletes a cycle's events from sources that were deleted or that the agent must forget. */
export async function forgetEvents(tx: Tx, { id, forgets }: Run): Promise<void> {
  await deleteGoneEvents(tx, id, forgets)
}

/** Deletes a skipped cycle. Keeps the outcomes of its messages and its usage. */
export async function eraseCycle(tx: Tx, { id: runId }: Run): Promise<void> {
  await deleteCallsOfRun(tx, runId)
  await tx.$executeRaw(rollBackCycleSql(runId))
}

/**
 * Adds a cycle to the consciousness, unless the agent must forget the cycle or one of its sources has just been
 * deleted.
 */
export async function rememberCycle(
  tx: Tx,
  run: Run,
  { ending, endsTurn }: Pick<EndPlan, 'ending' | 'endsTurn'>,
  facts: Pick<EndFacts, 'failure'>,
): Promise<void> {
  if (run.forgets.length > 0) return forgetEvents(tx, run)
  const input = cycleInputOf(run)
  const steps = await readSteps(tx, run.id)
  const accepted = isRefused(ending, facts) ? acceptedMessages(input, steps) : lastingMessages(input, steps)
  const messages = [...(accepted ?? [await leftOut(tx, run)]), ...said(noteOf(ending, !endsTurn))]
  const cycleCount = await countCycle(tx, run.agentId, run.id)
  if (cycleCount === null) return forgetEvents(tx, run)
  await insertCycle(tx, {
    agentId: run.agentId,
    index: cycleCount - 1,
    runId: run.id,
    places: run.places,
    label: run.label,
    messages,
    summary: summaryOf(ending, input, steps),
    tokenEstimate: estimateTokens(messages),
  })
}

/** Returns the note that a failed or stopped cycle leaves in the consciousness. */
function noteOf(ending: RunEnding, isTriedAgain: boolean): string | null {
  if (ending.status === 'FAILED')
    return `[This cycle failed: ${ending.error}${isTriedAgain ? ' The events that it had read will be delivered again.' : ''}]`
  return ending.stopReason === 'STOPPED' ? '[This cycle was stopped.]' : null
}

const said = (content: string | null): ModelMessage[] => (content === null ? [] : [{ role: 'user', content }])

/**
 * Returns the message that replaces a cycle which the model provider refused. It lists the sources of the cycle's
 * events without their content.
 */
async function leftOut(tx: Tx, { id: runId }: Run): Promise<ModelMessage> {
  const events = (await claimedEvents(tx, [runId], MOST_NAMED)).get(runId) ?? []
  const names = events.map((event) => `- ${sourceNameOf(event)}`)
  return { role: 'user', content: ['INBOX (left out, because the provider refused it):', ...names].join('\n') }
}

const MOST_NAMED = 10

function summaryOf(ending: RunEnding, input: CycleInput, steps: JournaledStep[]): string {
  const outline = outlineOf(input, steps)
  if (ending.status === 'COMPLETED') return ending.summary ?? outline
  if (ending.status === 'FAILED') return `${outline} Then the cycle failed: ${ending.error}`
  return ending.stopReason === 'STOPPED' ? `${outline} Then the cycle was stopped.` : outline
}

/** Reads the journal within the transaction. */
async function readSteps(tx: Tx, runId: string): Promise<JournaledStep[]> {
  const steps = await tx.step.findMany({ where: { runId }, orderBy: { index: 'asc' }, omit: { messagesAdded: true } })
  const calls = await tx.toolCall.findMany({ where: { runId }, orderBy: { id: 'asc' } })
  return journaledSteps(
    steps.map((step) => ({ ...step, messagesAdded: [] })),
    calls,
  )
}
