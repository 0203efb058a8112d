import { Prisma, type RunStatus, type ToolCall, type TriggerType } from '../generated/prisma/client.ts'
import type { Tx } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'
import { JOBS_CHANNEL, runTopic, spaceTopic } from '../realtime/topics.ts'
import { indexOfCall, messageOfRow } from '../spaces/message.ts'
import { IS_LEFT_TO_OTHERS } from './approval.ts'
import { type Audience, audienceOf, createCallPublisher } from './call-publisher.ts'
import { appending } from './run-events.ts'
import { showsWaiting } from './tool-calls.ts'

export interface SettlingHooks {
  /**
   * All calls that a message shows are settled: finishes the message in this transaction, and
   * routes it. INTERRUPTED if one of them was canceled.
   */
  onMessageAnswered(
    tx: Tx,
    messageId: string,
    status: 'COMPLETE' | 'INTERRUPTED',
  ): Promise<{ afterCommit(): Promise<void> }>
  /** A call of a persistent agent was settled: puts its result into the inbox, in this transaction. */
  onAsyncResult(tx: Tx, call: ToolCall): Promise<{ afterCommit(): Promise<void> } | null>
}

/** A run whose row this transaction has locked. */
export interface LockedRun {
  id: string
  status: RunStatus
  triggerType: TriggerType
}

/** The effects of a settled call, to be published after the commit. */
export interface Settled {
  call: ToolCall
  partIndex: number | null
  /** The humans who were last requested to decide; null if there was no request. */
  audience: Audience | null
  afterCommit: (() => Promise<void>)[]
}

export interface HowSettled {
  audience: Audience | null
  /** Timed out: skip the call for now if its run's row is locked. */
  isDue?: boolean
}

/**
 * Settles calls that their run does not execute itself: answered, decided, executed by another
 * worker, or timed out.
 */
export interface CallSettling {
  /**
   * In a transaction: locks the run's row (which orders this against a pause or stop), changes the
   * call by `change`, a compare-and-set, and applies the effects; then publishes them. Null: there
   * was nothing to change.
   */
  settle(
    toolCallId: string,
    how: HowSettled,
    change: (tx: Tx, run: LockedRun) => Promise<ToolCall | null>,
  ): Promise<ToolCall | null>
  /**
   * Applies the effects within the transaction: finishes the call's message if no other call in it
   * waits, puts the result into a persistent agent's inbox, and makes the run claimable once none
   * of its calls waits for others.
   */
  follow(tx: Tx, run: LockedRun, call: ToolCall, audience: Audience | null): Promise<Settled>
  /** The same for calls whose run has ended and whose agent gets no result: finishes only their messages. */
  abandon(tx: Tx, calls: ToolCall[]): Promise<Settled[]>
  /** Publishes the effects after the commit. */
  tell(settled: Settled): Promise<void>
  /** Publishes that the approval or claim of a call changed, wherever the call is shown. */
  tellChanged(call: ToolCall, audience: Audience): Promise<void>
}

/**
 * Locks the row of the run that made a call. Null: there is none, or, with `unlessLocked`, another
 * transaction has locked it.
 */
export async function lockRunOf(
  tx: Tx,
  toolCallId: string,
  { unlessLocked }: { unlessLocked: boolean },
): Promise<LockedRun | null> {
  const [run] = await tx.$queryRaw<LockedRun[]>`
    SELECT id, status::text AS status, "triggerType"::text AS "triggerType" FROM "Run"
    WHERE id = (SELECT "runId" FROM "ToolCall" WHERE id = ${toolCallId}) FOR NO KEY UPDATE ${unlessLocked ? Prisma.sql`SKIP LOCKED` : Prisma.empty}`
  return run ?? null
}

export function createCallSettling(platform: Platform, hooks: SettlingHooks): CallSettling {
  const { db, log, signals } = platform
  const callPublisher = createCallPublisher(platform)

  async function follow(tx: Tx, run: LockedRun, call: ToolCall, audience: Audience | null): Promise<Settled> {
    const settled = await followInMessage(tx, hooks, call, audience)
    const async = await hooks.onAsyncResult(tx, call)
    if (async !== null) settled.afterCommit.push(async.afterCommit)
    if (run.status === 'WAITING_TOOL') {
      await tx.$executeRaw`
        UPDATE "Run" SET "claimableAt" = now() WHERE id = ${run.id}
          AND NOT EXISTS (SELECT 1 FROM "ToolCall" WHERE "runId" = ${run.id} AND ${IS_LEFT_TO_OTHERS})`
    }
    return settled
  }

  async function tellPart({ messageId, spaceId }: ToolCall, partIndex: number | null): Promise<void> {
    if (messageId === null || spaceId === null || partIndex === null || partIndex < 0) return
    await log.append(spaceTopic(spaceId), { type: 'MessagePartChanged', messageId, partIndex })
  }

  function tellRun(type: 'RunToolReturned' | 'RunToolCallChanged', { id, runId }: ToolCall) {
    const event = { type, toolCallId: id }
    return log.append(runTopic(runId), event, appending(runId, event))
  }

  async function tell({ call, partIndex, audience, afterCommit }: Settled): Promise<void> {
    await tellPart(call, partIndex)
    if (audience === 'deciders') {
      await tellRun('RunToolCallChanged', call)
      await callPublisher.changed(call, audience)
    }
    if (audience !== null) await callPublisher.settled(call, audience)
    await tellRun('RunToolReturned', call)
    for (const after of afterCommit) await after()
    await signals.publish(JOBS_CHANNEL, {})
  }

  return {
    follow,
    async abandon(tx, calls) {
      const settled = []
      for (const call of calls) settled.push(await followInMessage(tx, hooks, call, audienceOf(call)))
      return settled
    },
    tell,
    async settle(toolCallId, { audience, isDue = false }, change) {
      const settled = await db.transaction(async (tx) => {
        const run = await lockRunOf(tx, toolCallId, { unlessLocked: isDue })
        const call = run && (await change(tx, run))
        return run && call && follow(tx, run, call, audience)
      })
      if (settled === null) return null
      await tell(settled)
      return settled.call
    },
    async tellChanged(call, audience) {
      const row = call.messageId && (await db.prisma.message.findUnique({ where: { id: call.messageId } }))
      await tellPart(call, row ? indexOfCall(messageOfRow(row).parts, call.id) : null)
      await tellRun('RunToolCallChanged', call)
      await callPublisher.changed(call, audience)
    },
  }
}

/** Finishes the message that shows a call once none of its calls waits. */
async function followInMessage(
  tx: Tx,
  hooks: SettlingHooks,
  call: ToolCall,
  audience: Audience | null,
): Promise<Settled> {
  const settled: Settled = { call, partIndex: null, audience, afterCommit: [] }
  const { messageId } = call
  const row = messageId === null ? null : await tx.message.findUnique({ where: { id: messageId } })
  if (row === null) return settled
  settled.partIndex = indexOfCall(messageOfRow(row).parts, call.id)
  if (row.status !== 'REQUIRES_ACTION') return settled
  const [open] = await tx.$queryRaw<{ waits: boolean }[]>`SELECT ${showsWaiting(row.id)} AS waits`
  if (open?.waits === true) return settled
  const status = call.status === 'CANCELED' ? 'INTERRUPTED' : 'COMPLETE'
  settled.afterCommit.push((await hooks.onMessageAnswered(tx, row.id, status)).afterCommit)
  return settled
}
