import type { ModelMessage } from 'ai'
import { COME_BACK, postpone, RETRY_MINUTES } from '../agents/inbox-retrying.ts'
import { sourceNameOf } from '../agents/inbox-source.ts'
import { hasWaiting, type PutOff } from '../agents/inbox-taking.ts'
import { Prisma, type Run } from '../generated/prisma/client.ts'
import { toJson } from '../lib/json.ts'
import type { Tx } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'
import { JOBS_CHANNEL } from '../realtime/topics.ts'
import { type JournaledStep, journaledSteps } from '../runs/journal.ts'
import { rolledBack } from '../runs/ledger.ts'
import type { LifecycleHooks, RunAftermath, RunEnding } from '../runs/lifecycle.ts'
import { eraseAll } from '../runs/tool-calls.ts'
import { type CycleState, cycleStateOf } from './cycle-state.ts'
import { acceptedMessages, lastingMessages, outlineOf } from './cycle-transcript.ts'
import { hasDoneNothing } from './done-nothing.ts'
import type { OutcomeChanges } from './outcomes.ts'
import { allWait, putOffAll, spentMeanwhile } from './over-budget.ts'
import { estimateTokens } from './token-usage.ts'

/** Effects of the end of a run, and the changes of message outcomes. */
export interface CycleEndHooks extends LifecycleHooks {
  outcomes(tx: Tx): OutcomeChanges
}

/**
 * Handles the end of a run and, for a think cycle, its effects on the agent. In the transaction that ends a cycle, in
 * order: lock the agent's row; mark the events as done, or, if the provider failed, schedule their retry; add the cycle
 * to the consciousness, or, after a skip, delete it; and signal workers if more events wait. The cost does not depend
 * on the number of earlier cycles.
 */
export function createCycleEnd(
  { signals, logger, config }: Platform,
  { onRunEnded, endsAlone, outcomes }: CycleEndHooks,
): LifecycleHooks {
  return {
    endsAlone: Prisma.sql`("Run"."triggerType" <> 'INBOX' AND ${endsAlone})`,
    async onRunEnded(tx, run, ending) {
      if (run.triggerType !== 'INBOX') return onRunEnded(tx, run, ending)
      if (ending.stopReason === 'GONE')
        return goneCycle(tx, run, { ...(await onRunEnded(tx, run, ending)), changes: outcomes(tx) })
      const restMs = config.limits.cycleRestMs
      await rest(tx, run, restMs)
      const isErased = isSkip(ending) && (await hasDoneNothing(tx, run))
      const postponed = isOutage(run, ending) ? await postpone(tx, run.id) : []
      const spent = await spentMeanwhile(tx, run, ending)
      const effective = isErased ? ending : ordinary(ending, postponed, spent)
      const { afterCommit } = await onRunEnded(tx, run, effective)
      const changes = outcomes(tx)
      const isPutOff = await putOffAll(tx, run, spent, changes)
      const isRefusedAlone = isRefused(run, effective) && (await putBack(tx, run))
      const messageIds = await finishEvents(tx, run)
      const isPutBack =
        isPutOff ||
        isRefusedAlone ||
        (postponed.length > 0 && messageIds.length === 0 && (await hasDoneNothing(tx, run)))
      if (isErased) await erase(tx, run, messageIds, { reason: reasonOf(ending), changes })
      else if (!isPutBack) await remember(tx, run, effective)
      if (effective.status === 'FAILED') await noteFailure(run, effective.error, messageIds, changes)
      await notePostponed(run, postponed, changes)
      if (effective !== ending) await tx.run.update({ where: { id: run.id }, data: summaryIn(effective) })
      const goesOn = await hasWaiting(tx, run.agentId)
      return {
        isErased,
        async afterCommit() {
          if (isErased)
            logger.info({ runId: run.id, agentId: run.agentId, reason: reasonOf(ending) }, 'skipped a think cycle')
          await changes.announce()
          await afterCommit()
          if (goesOn) await signals.publish(JOBS_CHANNEL, {})
          // For events that arrive during the pause. If this signal is lost, the poll for due inboxes finds them later.
          setTimeout(() => signals.publish(JOBS_CHANNEL, {}).catch(() => {}), restMs + 1).unref()
        },
      }
    },
  }
}

/**
 * A cycle whose agent, or a space that it had events of, was deleted is not remembered. Its other events are requeued
 * if the cycle has not acted on them; otherwise they are done.
 */
async function goneCycle(
  tx: Tx,
  run: Run,
  { afterCommit, changes }: { afterCommit(): Promise<void>; changes: OutcomeChanges },
): Promise<RunAftermath> {
  await forgetTaken(tx, run)
  if (await hasDoneNothing(tx, run))
    await tx.inboxEvent.updateMany({ where: { runId: run.id, doneAt: null }, data: { runId: null } })
  for (const messageId of await finishEvents(tx, run)) {
    if (messageId !== run.triggerMessageId)
      await changes.set({ messageId, agentId: run.agentId, kind: 'DROPPED', reason: null, runId: run.id })
  }
  return {
    async afterCommit() {
      await changes.announce()
      await afterCommit()
    },
  }
}

/** The agent or the space of an event `e` was deleted. */
const IS_GONE = Prisma.sql`(NOT EXISTS (SELECT 1 FROM "Agent" a WHERE a.id = e."agentId")
  OR (e."spaceId" IS NOT NULL AND NOT EXISTS (SELECT 1 FROM "Space" s WHERE s.id = e."spaceId" AND s."deletedAt" IS NULL)))`

async function forgetTaken(tx: Tx, { id: runId, forgets }: Run): Promise<void> {
  await tx.$executeRaw`
    DELETE FROM "InboxEvent" e WHERE e."runId" = ${runId} AND (${IS_GONE} OR e."spaceId" = ANY(${forgets}::text[]))`
}

type Skip = Extract<RunEnding, { status: 'COMPLETED' }>

function isSkip(ending: RunEnding): ending is Skip {
  return ending.status === 'COMPLETED' && ending.skipped !== undefined
}

function reasonOf(ending: RunEnding): string | null {
  return isSkip(ending) ? (ending.skipped?.reason ?? null) : null
}

/**
 * Sets the pause between two cycles. After a successful cycle the provider evidently responds, so postponed events
 * become due.
 */
async function rest(tx: Tx, { agentId, status }: Run, restMs: number): Promise<void> {
  await tx.$executeRaw`
    WITH back AS (
      UPDATE "InboxEvent" SET ${COME_BACK} WHERE "agentId" = ${agentId} AND "retryAt" IS NOT NULL AND ${status === 'COMPLETED'}::boolean
    )
    UPDATE "Agent" SET "restsUntil" = clock_timestamp() + ${restMs} * interval '1 millisecond' WHERE id = ${agentId}`
}

/** Adjusts the ending if a skip comes too late to leave no trace, or if events of a failed cycle will be retried. */
function ordinary(ending: RunEnding, postponed: unknown[], spent: PutOff[]): RunEnding {
  const isTriedAgain = postponed.length > 0 || allWait(spent)
  if (isTriedAgain && ending.status === 'FAILED') return { ...ending, isTriedAgain }
  if (!isSkip(ending)) return ending
  return { status: 'COMPLETED', stopReason: 'SKIPPED', summary: ending.skipped?.reason ?? ending.summary }
}

function summaryIn(ending: RunEnding): { summary?: string | null } {
  return ending.status === 'COMPLETED' ? { summary: ending.summary } : {}
}

/** The provider could not be reached, or its stream broke off; the prompt is not known to be the cause. */
function isOutage({ state }: Run, { stopReason }: RunEnding): boolean {
  const { failure } = cycleStateOf({ state })
  return stopReason === 'MODEL_FAILED' && (failure === 'provider' || failure === 'unclear')
}

/** The provider refused what the cycle sent. */
function isRefused({ state }: Run, { status }: RunEnding): boolean {
  return status === 'FAILED' && cycleStateOf({ state }).failure === 'prompt'
}

/**
 * If a provider refused a cycle of several events before anything was done, requeues each event to be alone in a cycle,
 * so that only the refused one is dropped. Returns false if there was one event, or if something was done.
 */
async function putBack(tx: Tx, run: Run): Promise<boolean> {
  const taken = { runId: run.id, doneAt: null }
  if ((await tx.inboxEvent.count({ where: taken })) < 2 || !(await hasDoneNothing(tx, run))) return false
  await tx.inboxEvent.updateMany({ where: taken, data: { runId: null, suspect: true } })
  return true
}

/** @returns the messages that the cycle was about */
async function finishEvents(tx: Tx, run: Run): Promise<string[]> {
  const events = await tx.inboxEvent.updateManyAndReturn({
    where: { runId: run.id, doneAt: null, retryAt: null },
    data: { doneAt: new Date() },
    select: { messageId: true },
  })
  return events.flatMap(({ messageId }) => (messageId === null ? [] : [messageId]))
}

/**
 * Sets the outcome of the messages that a failed cycle read to FAILED. The outcome of the cycle's trigger is written
 * with the end of the run.
 */
async function noteFailure(
  { id: runId, agentId, triggerMessageId, label }: Run,
  failure: string,
  messageIds: string[],
  changes: OutcomeChanges,
): Promise<void> {
  const error = label.length > 0 ? 'MODEL_FAILED' : failure.split('\n', 1).join()
  for (const messageId of messageIds) {
    if (messageId === triggerMessageId) continue
    await changes.set({ messageId, agentId, kind: 'FAILED', reason: null, error, runId })
  }
}

/** Sets the outcome of messages that wait for the provider, so that readers see the wait and the failed cycle. */
async function notePostponed(
  { id: runId, agentId }: Run,
  postponed: Awaited<ReturnType<typeof postpone>>,
  changes: OutcomeChanges,
): Promise<void> {
  for (const { messageId, outages } of postponed) {
    const minutes = RETRY_MINUTES[outages - 1] === 1 ? '1 minute' : `${RETRY_MINUTES[outages - 1]} minutes`
    const reason = `Its model's provider failed: it is tried again in ${minutes}.`
    if (messageId !== null) await changes.set({ messageId, agentId, kind: 'INBOX', reason, runId })
  }
}

/** Deletes a skipped cycle except for the outcomes of its messages. */
async function erase(
  tx: Tx,
  { id: runId, agentId, triggerMessageId }: Run,
  messageIds: string[],
  { reason, changes }: { reason: string | null; changes: OutcomeChanges },
): Promise<void> {
  for (const messageId of messageIds) {
    // The outcome of the cycle's trigger is written with the end of the run.
    if (messageId !== triggerMessageId) await changes.set({ messageId, agentId, kind: 'SKIPPED', reason, runId: null })
  }
  await eraseAll(tx, runId)
  await tx.$executeRaw(rolledBack(runId))
}

/** Writes nothing if the cycle is to be forgotten, or if a source was deleted just before the end. */
async function remember(tx: Tx, run: Run, ending: RunEnding): Promise<void> {
  if (run.forgets.length > 0) return forgetTaken(tx, run)
  const state = cycleStateOf(run)
  const steps = await readSteps(tx, run.id)
  const accepted = isRefused(run, ending) ? acceptedMessages(state, steps) : lastingMessages(state, steps)
  const messages = [...(accepted ?? [await leftOut(tx, run)]), ...said(noteOf(ending))]
  const [agent] = await tx.$queryRaw<{ cycleCount: number }[]>`
    UPDATE "Agent" SET "cycleCount" = "cycleCount" + 1
    WHERE id = ${run.agentId} AND NOT EXISTS (SELECT 1 FROM "InboxEvent" e WHERE e."runId" = ${run.id} AND ${IS_GONE})
    RETURNING "cycleCount"`
  if (agent === undefined) return forgetTaken(tx, run)
  await tx.cycle.create({
    data: {
      agentId: run.agentId,
      index: agent.cycleCount - 1,
      runId: run.id,
      places: run.places,
      label: run.label,
      messages: toJson(messages) as Prisma.InputJsonValue,
      summary: summaryOf(ending, state, steps),
      tokenEstimate: estimateTokens(messages),
    },
  })
}

/** Returns the note in the consciousness for a cycle that failed or was stopped. */
function noteOf(ending: RunEnding): string | null {
  if (ending.status === 'FAILED')
    return `[This cycle failed: ${ending.error}${ending.isTriedAgain === true ? ' What it had read comes again.' : ''}]`
  return ending.stopReason === 'STOPPED' ? '[This cycle was stopped.]' : null
}

const said = (content: string | null): ModelMessage[] => (content === null ? [] : [{ role: 'user', content }])

/** Replaces a cycle that a provider refused: names the sources of its events without their content. */
async function leftOut(tx: Tx, { id: runId }: Run): Promise<ModelMessage> {
  const events = await tx.inboxEvent.findMany({ where: { runId }, orderBy: { id: 'asc' }, take: MOST_NAMED })
  const names = events.map((event) => `- ${sourceNameOf(event)}`)
  return { role: 'user', content: ['INBOX (left out, because the provider refused it):', ...names].join('\n') }
}

const MOST_NAMED = 10

function summaryOf(ending: RunEnding, state: CycleState, steps: JournaledStep[]): string {
  const outline = outlineOf(state, steps)
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
