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
  /** All calls that a message shows are answered: it is whole, and routed, in this transaction; INTERRUPTED where one was canceled. */
  onMessageAnswered(
    tx: Tx,
    messageId: string,
    status: 'COMPLETE' | 'INTERRUPTED',
  ): Promise<{ afterCommit(): Promise<void> }>
  /** A call of a persistent agent was settled: its result goes to the inbox, in this transaction. */
  onAsyncResult(tx: Tx, call: ToolCall): Promise<{ afterCommit(): Promise<void> } | null>
}

/** A run whose row is locked by the transaction. */
export interface LockedRun {
  id: string
  status: RunStatus
  triggerType: TriggerType
}

/** What a settled call has led to, to be told once that is committed. */
export interface Settled {
  call: ToolCall
  partIndex: number | null
  /** Who has been asked last; null where nobody is asked any more. */
  audience: Audience | null
  afterCommit: (() => Promise<void>)[]
}

export interface HowSettled {
  audience: Audience | null
  /** By its time: one that is in somebody's hands is left for later. */
  isDue?: boolean
}

/** The end of a call that its run does not carry out itself: answered, decided, carried out by another, or over its time. */
export interface CallSettling {
  /**
   * In a transaction: the run's row lock (a pause or a stop at the same time comes before or after, not in between), the call by
   * `change`, a compare-and-set, and what follows from it; then tells it. Null: there was nothing to change.
   */
  settle(
    toolCallId: string,
    how: HowSettled,
    change: (tx: Tx, run: LockedRun) => Promise<ToolCall | null>,
  ): Promise<ToolCall | null>
  /** What follows in the transaction: its message, if that is whole now; the agent's inbox; and, when nothing is left to others any more, that the run can be claimed. */
  follow(tx: Tx, run: LockedRun, call: ToolCall, audience: Audience | null): Promise<Settled>
  /** The same of calls whose run is over, and whose agent hears nothing any more: their messages alone. */
  abandon(tx: Tx, calls: ToolCall[]): Promise<Settled[]>
  /** Once committed. */
  tell(settled: Settled): Promise<void>
  /** What is asked about a call, or who sees to it, changed: told wherever it is shown. */
  tellChanged(call: ToolCall, audience: Audience): Promise<void>
}

/** Locks the row of the run that made a call. Null: there is none, or, `unlessLocked`, somebody has it in hand. */
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

/** The message that shows a call is whole once nothing else in it waits. */
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
