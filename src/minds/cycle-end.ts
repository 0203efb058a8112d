import type { ModelMessage } from 'ai'
import { hasWaiting } from '../agents/inbox-taking.ts'
import { MCP_NAME_SEPARATOR } from '../agents/tool-names.ts'
import type { Prisma, Run } from '../generated/prisma/client.ts'
import { toJson } from '../lib/json.ts'
import type { Tx } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'
import { JOBS_CHANNEL } from '../realtime/topics.ts'
import { type JournaledStep, journaledSteps } from '../runs/journal.ts'
import type { LifecycleHooks, RunEnding } from '../runs/lifecycle.ts'
import { eraseAll } from '../runs/tool-calls.ts'
import { type CycleState, cycleStateOf } from './cycle-state.ts'
import { lastingMessages, outlineOf } from './cycle-transcript.ts'
import { sourceNameOf } from './inbox-message.ts'
import { estimateTokens } from './token-usage.ts'

/** What the end of a run means for others, and how outcomes of messages are changed. */
export interface CycleEndHooks extends LifecycleHooks {
  outcomes(tx: Tx): OutcomeChanges
}

interface OutcomeChanges {
  set(outcome: {
    messageId: string
    agentId: string
    kind: 'SKIPPED' | 'FAILED'
    reason: string | null
    error?: string | null
    runId: string | null
  }): Promise<void>
  announce(): Promise<void>
}

/**
 * What the end of a run means for others, and, where the run was a think cycle, for its agent. In the transaction that ends
 * the cycle, in order: the agent's row lock; its events are done; the cycle becomes a row of the consciousness, or, after a
 * skip, nothing is left of it; and workers are told where something has come meanwhile. What a cycle costs on its end does
 * not depend on how many came before it.
 */
export function createCycleEnd(
  { signals, logger, config }: Platform,
  { onRunEnded, outcomes }: CycleEndHooks,
): LifecycleHooks {
  return {
    async onRunEnded(tx, run, ending) {
      if (run.triggerType !== 'INBOX') return onRunEnded(tx, run, ending)
      const restMs = config.limits.cycleRestMs
      await tx.$executeRaw`
        UPDATE "Agent" SET "restsUntil" = clock_timestamp() + ${restMs} * interval '1 millisecond' WHERE id = ${run.agentId}`
      const isErased = isSkip(ending) && (await hasDoneNothing(tx, run))
      const effective = isErased ? ending : ordinary(ending)
      const { afterCommit } = await onRunEnded(tx, run, effective)
      const isPutBack = isRefused(run, effective) && (await putBack(tx, run))
      const messageIds = await finishEvents(tx, run)
      const changes = outcomes(tx)
      if (isErased) await erase(tx, run, messageIds, { reason: reasonOf(ending), changes })
      else if (!isPutBack) await remember(tx, run, effective)
      if (effective.status === 'FAILED') await noteFailure(run, effective.error, messageIds, changes)
      if (effective !== ending) await tx.run.update({ where: { id: run.id }, data: summaryIn(effective) })
      const goesOn = await hasWaiting(tx, run.agentId)
      return {
        isErased,
        async afterCommit() {
          if (isErased)
            logger.info({ runId: run.id, agentId: run.agentId, reason: reasonOf(ending) }, 'a cycle was skipped')
          await changes.announce()
          await afterCommit()
          if (goesOn) await signals.publish(JOBS_CHANNEL, {})
          // For what comes while the agent rests; whoever looks for what is due finds it as well, only later.
          setTimeout(() => signals.publish(JOBS_CHANNEL, {}).catch(() => {}), restMs + 1).unref()
        },
      }
    },
  }
}

type Skip = Extract<RunEnding, { status: 'COMPLETED' }>

function isSkip(ending: RunEnding): ending is Skip {
  return ending.status === 'COMPLETED' && ending.skipped !== undefined
}

function reasonOf(ending: RunEnding): string | null {
  return isSkip(ending) ? (ending.skipped?.reason ?? null) : null
}

/** A skip that comes too late to leave no trace. */
function ordinary(ending: RunEnding): RunEnding {
  if (!isSkip(ending)) return ending
  return { status: 'COMPLETED', stopReason: 'SKIPPED', summary: ending.skipped?.reason ?? ending.summary }
}

function summaryIn(ending: RunEnding): { summary?: string | null } {
  return ending.status === 'COMPLETED' ? { summary: ending.summary } : {}
}

/** Built-in tools that only look, or move the cycle itself. */
const CHANGES_NOTHING = [
  ...['enter_space', 'read_messages', 'readSpaceMessages', 'get_my_runs', 'getMyRuns', 'get_plans', 'getPlans', 'skip'],
]
/** Failures from before anything outside was reached. */
const REFUSED_BEFORE = ['BAD_INPUT', 'BLOCKED_ADDRESS', 'NO_SUCH_TOOL', 'TOO_MANY_CALLS', 'NO_ACTIVE_SPACE']

/**
 * It posted nothing, and called nothing that may have changed something outside the cycle: another server, somebody who is to
 * answer, what the agent knows or plans. A call that failed on its way out may have.
 */
async function hasDoneNothing(tx: Tx, { id: runId }: Run): Promise<boolean> {
  const [found] = await tx.$queryRaw<{ wrote: boolean; acted: boolean }[]>`
    SELECT EXISTS (SELECT 1 FROM "RunSpace" WHERE "runId" = ${runId}) AS wrote, EXISTS (
      SELECT 1 FROM "ToolCall" c WHERE c."runId" = ${runId}
        AND CASE WHEN c.execution IS NULL THEN c."toolName" <> ALL(${CHANGES_NOTHING}::text[]) ELSE c.execution <> 'INTERNAL' END
        AND (c.status IN ('WAITING', 'DONE', 'TIMED_OUT') OR (c.status = 'FAILED'
          AND (c.execution = 'HTTP' OR strpos(c."toolName", ${MCP_NAME_SEPARATOR}) > 0)
          AND coalesce(c.output->'error'->>'code', '') <> ALL(${REFUSED_BEFORE}::text[])))
    ) AS acted`
  return found !== undefined && !found.wrote && !found.acted
}

/** A provider did not take what the cycle sent it. */
function isRefused({ state }: Run, { status }: RunEnding): boolean {
  return status === 'FAILED' && cycleStateOf({ state }).failure === 'prompt'
}

/**
 * Of several events of which a provider refused something, before anything was done, each comes again by itself: only the one that
 * is refused again is left out. False: it was one, or something was done.
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
    where: { runId: run.id, doneAt: null },
    data: { doneAt: new Date() },
    select: { messageId: true },
  })
  return events.flatMap(({ messageId }) => (messageId === null ? [] : [messageId]))
}

/** Whoever sees a message that a failed cycle read sees that it failed. That of the whole cycle is written with the run's end. */
async function noteFailure(
  { id: runId, agentId, triggerMessageId }: Run,
  failure: string,
  messageIds: string[],
  changes: OutcomeChanges,
): Promise<void> {
  const [error = ''] = failure.split('\n', 1)
  for (const messageId of messageIds) {
    if (messageId === triggerMessageId) continue
    await changes.set({ messageId, agentId, kind: 'FAILED', reason: null, error, runId })
  }
}

/** All that stays of a skipped cycle: the outcome of its messages. */
async function erase(
  tx: Tx,
  { id: runId, agentId, triggerMessageId }: Run,
  messageIds: string[],
  { reason, changes }: { reason: string | null; changes: OutcomeChanges },
): Promise<void> {
  for (const messageId of messageIds) {
    // The outcome of what the whole cycle was about is written with the run's end.
    if (messageId !== triggerMessageId) await changes.set({ messageId, agentId, kind: 'SKIPPED', reason, runId: null })
  }
  await eraseAll(tx, runId)
  await tx.run.delete({ where: { id: runId } })
}

async function remember(tx: Tx, run: Run, ending: RunEnding): Promise<void> {
  const state = cycleStateOf(run)
  const steps = await readSteps(tx, run.id)
  const messages = isRefused(run, ending)
    ? [await leftOut(tx, run), ...said(noteOf(ending))]
    : [...lastingMessages(state, steps), ...said(noteOf(ending))]
  const { cycleCount } = await tx.agent.update({
    where: { id: run.agentId },
    data: { cycleCount: { increment: 1 } },
    select: { cycleCount: true },
  })
  await tx.cycle.create({
    data: {
      agentId: run.agentId,
      index: cycleCount - 1,
      runId: run.id,
      messages: toJson(messages) as Prisma.InputJsonValue,
      summary: summaryOf(ending, state, steps),
      tokenEstimate: estimateTokens(messages),
    },
  })
}

/** What the mind is told of a cycle that it did not end itself. */
function noteOf(ending: RunEnding): string | null {
  if (ending.status === 'FAILED') return `[This cycle failed: ${ending.error}]`
  return ending.stopReason === 'STOPPED' ? '[This cycle was stopped.]' : null
}

const said = (content: string | null): ModelMessage[] => (content === null ? [] : [{ role: 'user', content }])

/** In the place of a cycle of which a provider refused something: where that came from, and nothing of what it was. */
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

/** The journal, within the transaction: what is not in it has not happened. */
async function readSteps(tx: Tx, runId: string): Promise<JournaledStep[]> {
  const steps = await tx.step.findMany({ where: { runId }, orderBy: { index: 'asc' }, omit: { messagesAdded: true } })
  const calls = await tx.toolCall.findMany({ where: { runId }, orderBy: { id: 'asc' } })
  return journaledSteps(
    steps.map((step) => ({ ...step, messagesAdded: [] })),
    calls,
  )
}
