import { type RunLogEvent, runTopic, spaceTopic } from '../broker/topics.ts'
import { marksTogether } from '../confidentiality/marks.ts'
import type { Run, ToolCall } from '../generated/prisma/client.ts'
import { PUBLISH_CHANGE } from '../jobs/queues.ts'
import { messageOf } from '../lib/errors.ts'
import { isForeignModel } from '../lib/foreign-model.ts'
import { sweepRows } from '../lib/sweep-rows.ts'
import type { Tx } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'
import { type Message, type MessagePart, messageOfRow } from '../rules/message.ts'
import { isOrphan } from '../rules/orphan-messages.ts'
import { errorForMembers } from '../rules/run-end.ts'
import { isFinalMessage } from '../rules/statuses.ts'
import { audienceOf, createCallPublisher } from '../runs/call-publisher.ts'
import type { ClaimedRun } from '../runs/claiming.ts'
import { HELD, type Hold, holdOf, RunLostError } from '../runs/hold.ts'
import type { Announcer } from '../spaces/announcer.ts'
import { createMessagePublisher } from '../spaces/message-publisher.ts'
import { cancelStreamingCallsSql, isJournaled, WAITS_OUTSIDE_RUN_SQL } from '../stores/call-store.ts'
import { changeMessageSql, finishOpen, type MessageRow } from '../stores/message-store.ts'
import { ENDED_RUNS_SQL, OPEN_MESSAGES_SQL } from '../stores/status-sql.ts'

/** The time for which the events of a run are kept after its end. */
const KEPT_AFTER_END_SECONDS = 3600

/** Cleans up the messages and the event log of a run that has ended or was taken over from a dead worker. */
export interface MessageRecovery {
  /**
   * Seals the run's topic, so that its worker can no longer publish. Stores the streamed text of its unfinished
   * messages as INTERRUPTED, publishes the end of each message, and appends the run's only end event.
   */
  settle(run: ClaimedRun, end: RunLogEvent): Promise<void>
  /**
   * Cleans up after a takeover. If the dead worker was streaming a message from a generation that is not in the
   * journal, the message becomes INTERRUPTED, and the call that the message shows becomes CANCELED. This does not
   * happen if the run relays the answer of another server, because the run then continues the message. A message that
   * a journaled call has begun stays open, because the call will finish it. Announces messages that were committed
   * but not announced. Stops if another worker takes over the run.
   */
  takeOver(run: ClaimedRun): Promise<void>
  /**
   * Settles ended runs whose process died before it closed their messages. If a run cannot be settled, logs the
   * error; the next sweep tries again.
   */
  sweep(): Promise<void>
}

/** Returns the event that announces the end of a run. */
export function endEventOf(run: ClaimedRun): RunLogEvent {
  if (run.status === 'COMPLETED') return { type: 'RunCompleted' }
  // Only admins can see the error itself, which is a field of the run.
  return run.status === 'FAILED' ? { type: 'RunFailed', error: errorForMembers(run) ?? '' } : { type: 'RunCanceled' }
}

function unlessLost(error: unknown): void {
  if (!(error instanceof RunLostError)) throw error
}

/** Returns the parts of an unfinished message, including the text that has been streamed so far. */
export async function readPartsSoFar(
  log: Platform['log'],
  { id, spaceId, parts, composite }: Pick<Message, 'id' | 'spaceId' | 'parts' | 'composite'>,
): Promise<MessagePart[]> {
  // If the event log is unavailable, the text that was last stored in the row is used.
  const drafts = await log.drafts(spaceTopic(spaceId), [id]).then(
    (found) => found.get(id),
    () => undefined,
  )
  const found = [...parts]
  const mark = composite ? { unfinished: true as const } : {}
  for (const [index, text] of drafts ?? []) {
    const part = found[index]
    if (part === undefined || (part.type === 'text' && part.text.length < text.length))
      found[index] = { type: 'text', text, ...mark }
  }
  return found.filter((part) => part !== undefined)
}

export function createMessageRecovery(platform: Platform, announcer: Announcer): MessageRecovery {
  const { db, log, jobs, logger } = platform
  const callPublisher = createCallPublisher(platform)
  const publisher = createMessagePublisher(platform)
  const partsSoFar = (row: MessageRow) => readPartsSoFar(log, messageOfRow(row))

  /** Returns the key of the job that publishes the end of the run if this process dies first. */
  async function interrupt(row: MessageRow, run: ClaimedRun): Promise<string | null> {
    const parts = await partsSoFar(row)
    // A message that contains only texts and was just waiting for a reply is complete.
    const isWhole = row.status === 'REQUIRES_ACTION' && parts.every(({ type }) => type === 'text')
    // The labels are merged, because the run may have read more after the row was written.
    const marks = marksTogether([row, run])
    return finishOpen(db.prisma, row.id, { status: isWhole ? 'COMPLETE' : 'INTERRUPTED', parts, marks })
  }

  /**
   * Interrupts a message of a run that continues under this claim.
   * @throws RunLostError if a later claim has taken over the run
   */
  async function interruptHeld(row: MessageRow, run: ClaimedRun, hold: Hold): Promise<void> {
    const parts = await partsSoFar(row)
    const marks = marksTogether([row, run])
    await hold.write({ message: changeMessageSql(row.id, { parts, marks, end: { status: 'INTERRUPTED' } }, HELD) })
  }

  async function announceEnds(rows: MessageRow[]): Promise<void> {
    for (const row of rows) {
      await announcer.announce(row)
      await log.append(
        spaceTopic(row.spaceId),
        { type: 'MessageFinished', messageId: row.id },
        { once: `finished:${row.id}` },
      )
      await log.finishDraft(spaceTopic(row.spaceId), row.id)
    }
  }

  /** Publishes that messages exist and which of them wait for an answer, even if this was published before. */
  async function announceOpen(rows: MessageRow[]): Promise<void> {
    for (const row of rows) {
      await announcer.announce(row)
      if (row.status === 'REQUIRES_ACTION' && !row.composite) await publisher.waiting(row, 0)
    }
  }

  async function announceToolCalls(runId: string, rows: MessageRow[]): Promise<void> {
    const calls = await db.prisma.toolCall.findMany({ where: { runId, status: 'CANCELED' } })
    for (const call of calls) {
      const row = rows.find(({ id }) => id === call.messageId)
      if (row !== undefined) await announcePart(call, row)
      if (call.expiresAt !== null) await callPublisher.settled(call, audienceOf(call))
    }
  }

  async function announcePart({ id }: ToolCall, row: MessageRow): Promise<void> {
    const { parts } = messageOfRow(row)
    const partIndex = parts.findIndex((part) => part.type === 'tool' && part.toolCallId === id)
    if (partIndex < 0) return
    const changed = { type: 'MessagePartChanged', messageId: row.id, partIndex } as const
    await log.append(spaceTopic(row.spaceId), changed, { once: `canceled:${id}` })
  }

  /** Returns the unfinished messages that no unsettled call will continue. */
  async function orphansOf(rows: MessageRow[], calls: { id: string; settledAt: Date | null }[]): Promise<MessageRow[]> {
    const openCalls = new Set(calls.filter(({ settledAt }) => settledAt === null).map(({ id }) => id))
    const parts = await Promise.all(
      rows.map((row) => (row.status === 'STREAMING' && row.composite ? partsSoFar(row) : [])),
    )
    return rows.filter((row, index) => isOrphan({ ...row, parts: parts[index] ?? [] }, openCalls))
  }

  /**
   * Whether the run relays an answer from another server. Such a run reads the answer again and continues the
   * message.
   */
  async function isRelayed(runId: string): Promise<boolean> {
    const last = await db.prisma.step.findFirst({
      where: { runId },
      orderBy: { index: 'desc' },
      select: { model: true },
    })
    return last !== null && isForeignModel(last.model)
  }

  /** Returns the ids of unfinished messages with a call that can still get a result, although the run has ended. */
  async function waitedFor(rows: MessageRow[]): Promise<Set<string | null>> {
    const open = rows.filter(({ status }) => !isFinalMessage(status)).map(({ id }) => id)
    const calls = await db.prisma.toolCall.findMany({
      where: { messageId: { in: open }, OR: [{ status: 'WAITING' }, { carryAt: { not: null } }] },
    })
    return new Set(calls.map(({ messageId }) => messageId))
  }

  /** Cleans up after a run that was canceled or failed. Returns the keys of the jobs that would publish its end. */
  async function tidyUp(run: ClaimedRun): Promise<string[]> {
    const rows = await db.prisma.message.findMany({ where: { runId: run.id }, orderBy: { seq: 'asc' } })
    const topic = runTopic(run.id)
    // The run has ended, so it starts no more messages in these or other spaces.
    await log.seal(topic, [topic, ...new Set(rows.map(({ spaceId }) => spaceTopic(spaceId)))])
    const waited = await waitedFor(rows)
    const over = rows.filter(({ id }) => !waited.has(id))
    const changes: (string | null)[] = []
    for (const row of over) if (!isFinalMessage(row.status)) changes.push(await interrupt(row, run))
    await announceToolCalls(run.id, rows)
    await announceEnds(over)
    return changes.filter((change) => change !== null)
  }

  async function settle(run: ClaimedRun, end: RunLogEvent): Promise<void> {
    const topic = runTopic(run.id)
    // Seals the topic first, because a suspended worker may still publish events of the run, and no event may follow
    // the end event.
    const changes = run.status === 'COMPLETED' ? [] : await tidyUp(run)
    await Promise.all([
      ...(run.status === 'COMPLETED' ? [log.seal(topic, [topic])] : []),
      log.append(topic, end, { once: 'end' }),
      log.expire(topic, KEPT_AFTER_END_SECONDS),
    ])
    for (const change of changes) jobs.withdraw(PUBLISH_CHANGE, change)
  }

  async function takeOver(run: ClaimedRun): Promise<void> {
    const hold = holdOf(db, { run, attempt: run.attempt })
    const [rows, calls] = await Promise.all([
      db.prisma.message.findMany({ where: { runId: run.id }, orderBy: { seq: 'asc' } }),
      db.prisma.toolCall.findMany({ where: { runId: run.id } }),
    ])
    const orphans = (await isRelayed(run.id)) ? [] : await orphansOf(rows, calls.filter(isJournaled))
    for (const row of orphans) await interruptHeld(row, run, hold)
    if (!calls.every(isJournaled)) {
      await hold.write({ calls: cancelStreamingCallsSql(run.id) })
      await announceToolCalls(run.id, rows)
    }
    const isOver = (row: MessageRow) => isFinalMessage(row.status) || orphans.includes(row)
    await announceOpen(rows.filter((row) => !isOver(row)))
    await announceEnds(rows.filter(isOver))
  }

  return {
    settle,
    takeOver: (run) => takeOver(run).catch(unlessLost),
    sweep: () =>
      sweepRows({
        next: (after, most) => unsettledRuns(db.prisma, after, most),
        handle: (run) => settle(run, endEventOf(run)),
        report: ({ id }, error) =>
          logger.error({ runId: id, error: messageOf(error) }, 'could not settle the messages of an ended run'),
      }),
  }
}

/** Returns the next ended runs whose messages are still open. */
function unsettledRuns(tx: Tx, after: string, most: number): Promise<Run[]> {
  return tx.$queryRaw<Run[]>`
    SELECT * FROM "Run" WHERE id IN (
      SELECT r.id FROM "Message" m JOIN "Run" r ON r.id = m."runId"
      WHERE m.status IN ${OPEN_MESSAGES_SQL} AND r.status IN ${ENDED_RUNS_SQL} AND r.id > ${after}
        AND r."finishedAt" < now() - interval '10 seconds'
        AND NOT EXISTS (SELECT 1 FROM "ToolCall" c WHERE c."messageId" = m.id AND ${WAITS_OUTSIDE_RUN_SQL}))
    ORDER BY id LIMIT ${most}`
}
