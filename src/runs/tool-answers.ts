import { Prisma, type ToolCall } from '../generated/prisma/client.ts'
import { ConflictError } from '../lib/errors.ts'
import type { Json } from '../lib/json.ts'
import { checkJsonSize } from '../lib/validate.ts'
import type { Tx } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'
import { JOBS_CHANNEL, runTopic, spaceTopic } from '../realtime/topics.ts'
import { messageOfRow } from '../spaces/message.ts'
import { createCallNews } from './call-news.ts'
import { forEach, type Timed } from './due.ts'
import { answer, type Settlement, showsWaiting, UNANSWERED } from './tool-calls.ts'

export interface ToolAnswerHooks {
  /** All calls that a message shows are answered: it is whole, and routed, in this transaction. */
  onMessageAnswered(tx: Tx, messageId: string): Promise<{ afterCommit(): Promise<void> }>
  /** A call of a persistent agent was settled: its result goes to the inbox, in this transaction. */
  onAsyncResult(tx: Tx, call: ToolCall): Promise<{ afterCommit(): Promise<void> } | null>
  /** A call that had timed out was answered after all. Null where that is of no use to anybody. */
  onLateResult(tx: Tx, call: ToolCall, result: Json): Promise<{ afterCommit(): Promise<void> } | null>
}

/** The answers to calls that wait. */
export interface ToolAnswers {
  /**
   * Counts once, however often it comes; the last answer of a step resumes its run. What comes after the call's time is refused
   * too, but a persistent agent finds it in its inbox. @throws ConflictError, BadInputError
   */
  submit(call: ToolCall, result: Json): Promise<ToolCall>
  /** Calls whose time is up, by the database's clock. */
  timed: Timed
}

/** What a model gets for a call that nobody answered in time. */
export function timedOutResult(toolName: string): Json {
  return {
    error: {
      code: 'TIMED_OUT',
      message: `Nobody answered ${toolName} in time. Go on without its result, or ask again.`,
    },
  }
}

export function createToolAnswers(platform: Platform, hooks: ToolAnswerHooks): ToolAnswers {
  const { db } = platform

  async function settle(id: string, given: Settlement): Promise<ToolCall | null> {
    const settled = await db.transaction((tx) => writeAnswer(tx, hooks, id, given))
    if (settled === null) return null
    await publish(platform, settled)
    return settled.call
  }

  async function hearLate(call: ToolCall, result: Json): Promise<boolean> {
    const heard = await db.transaction((tx) => hooks.onLateResult(tx, call, result))
    await heard?.afterCommit()
    return heard !== null
  }

  /** Settles a call whose time is up; does nothing for one that is answered, not due yet, or in somebody's hands. */
  async function expire(id: string): Promise<void> {
    const call = await db.prisma.toolCall.findUnique({ where: { id }, select: { toolName: true } })
    if (call === null) return
    await settle(id, { status: 'TIMED_OUT', output: timedOutResult(call.toolName), error: 'Nobody answered in time.' })
  }

  return {
    async submit(call, result) {
      checkJsonSize(result, 'input.result')
      const settled = await settle(call.id, { status: 'DONE', output: result, error: null })
      if (settled !== null) return settled
      if (await hearLate(call, result))
        throw new ConflictError('This call has timed out. Its agent was told so, and finds this result in its inbox.')
      throw new ConflictError('This call was answered already, has timed out, or its run is over.')
    },
    timed: { what: 'a call that nobody answered', rows: UNANSWERED, handle: (ids) => forEach(ids, expire) },
  }
}

interface Settled {
  call: ToolCall
  partIndex: number | null
  afterCommit: (() => Promise<void>)[]
}

/**
 * In order: the run's row lock (a pause or a stop at the same time comes before or after, not in between; who finds a call's time
 * up comes again later instead), the call by compare-and-set, its message if that is whole now, the agent's inbox, and, when nothing
 * waits any more, that the run can be claimed.
 */
async function writeAnswer(tx: Tx, hooks: ToolAnswerHooks, id: string, given: Settlement): Promise<Settled | null> {
  const isDue = given.status === 'TIMED_OUT'
  const [run] = await tx.$queryRaw<{ id: string; status: string }[]>`
    SELECT id, status::text FROM "Run" WHERE id = (SELECT "runId" FROM "ToolCall" WHERE id = ${id})
    FOR NO KEY UPDATE ${isDue ? Prisma.sql`SKIP LOCKED` : Prisma.empty}`
  if (run === undefined) return null
  const call = await answer(tx, id, given, { isDue })
  if (call === null) return null
  const settled: Settled = { call, partIndex: null, afterCommit: [] }
  if (call.messageId !== null) await settleMessage(tx, hooks, settled, call.messageId)
  const async = await hooks.onAsyncResult(tx, call)
  if (async !== null) settled.afterCommit.push(async.afterCommit)
  const waiting = await tx.toolCall.count({ where: { runId: run.id, status: 'WAITING' } })
  if (waiting === 0 && run.status === 'WAITING_TOOL')
    await tx.$executeRaw`UPDATE "Run" SET "claimableAt" = now() WHERE id = ${run.id}`
  return settled
}

async function settleMessage(tx: Tx, hooks: ToolAnswerHooks, settled: Settled, messageId: string): Promise<void> {
  const row = await tx.message.findUnique({ where: { id: messageId } })
  if (row === null) return
  const { parts } = messageOfRow(row)
  settled.partIndex = parts.findIndex((part) => part.type === 'tool' && part.toolCallId === settled.call.id)
  const [open] = await tx.$queryRaw<{ waits: boolean }[]>`SELECT ${showsWaiting(messageId)} AS waits`
  if (row.status !== 'REQUIRES_ACTION' || open?.waits === true) return
  settled.afterCommit.push((await hooks.onMessageAnswered(tx, messageId)).afterCommit)
}

async function publish(platform: Platform, { call, partIndex, afterCommit }: Settled): Promise<void> {
  const { log, signals } = platform
  if (call.messageId !== null && call.spaceId !== null && partIndex !== null && partIndex >= 0) {
    await log.append(spaceTopic(call.spaceId), { type: 'MessagePartChanged', messageId: call.messageId, partIndex })
  }
  await createCallNews(platform).settled(call)
  await log.append(
    runTopic(call.runId),
    { type: 'RunToolReturned', toolCallId: call.id },
    { guard: runTopic(call.runId) },
  )
  for (const after of afterCommit) await after()
  await signals.publish(JOBS_CHANNEL, {})
}
