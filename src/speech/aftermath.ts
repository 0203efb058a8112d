import { marksTogether } from '../confidence/marks.ts'
import type { Prisma, Run, ToolCall } from '../generated/prisma/client.ts'
import type { Platform } from '../platform/platform.ts'
import { type RunLogEvent, runTopic, spaceTopic } from '../realtime/topics.ts'
import { type Aftermath, endEventOf } from '../runs/aftermath.ts'
import { IS_LEFT_TO_OTHERS } from '../runs/approval.ts'
import { audienceOf, createCallPublisher } from '../runs/call-publisher.ts'
import { HELD, type Hold, holdOf, RunLostError } from '../runs/hold.ts'
import { brokenOff, isJournaled } from '../runs/tool-calls.ts'
import type { Announcer } from '../spaces/announcer.ts'
import { isUnfinished, isWhole, type MessagePart, messageOfRow } from '../spaces/message.ts'
import { createMessagePublisher } from '../spaces/message-publisher.ts'
import { change, type MessageRow } from '../spaces/message-statements.ts'

/** How long the events of an ended run are kept. */
const KEPT_AFTER_END_SECONDS = 3600

function unlessLost(error: unknown): void {
  if (!(error instanceof RunLostError)) throw error
}

export function createAftermath(platform: Platform, announcer: Announcer): Aftermath {
  const { db, log } = platform
  const callPublisher = createCallPublisher(platform)
  const publisher = createMessagePublisher(platform)

  /** The parts of an unfinished message, with the streamed text of the current one. */
  async function partsSoFar(row: MessageRow): Promise<MessagePart[]> {
    const message = messageOfRow(row)
    // Without the event log, use the text that was saved last.
    const drafts = await log.drafts(spaceTopic(row.spaceId), [row.id]).then(
      (found) => found.get(row.id),
      () => undefined,
    )
    const parts = [...message.parts]
    const mark = row.composite ? { unfinished: true as const } : {}
    for (const [index, text] of drafts ?? []) {
      const part = parts[index]
      if (part === undefined || (part.type === 'text' && part.text.length < text.length))
        parts[index] = { type: 'text', text, ...mark }
    }
    return parts.filter((part) => part !== undefined)
  }

  async function interrupt(row: MessageRow, run: Run): Promise<void> {
    const parts = await partsSoFar(row)
    // A text message that only waited for a reply is complete.
    const isWhole = row.status === 'REQUIRES_ACTION' && parts.every(({ type }) => type === 'text')
    await db.prisma.message.updateMany({
      where: { id: row.id, status: { in: ['STREAMING', 'REQUIRES_ACTION'] } },
      data: {
        status: isWhole ? 'COMPLETE' : 'INTERRUPTED',
        routedAt: new Date(),
        // The run may have read more since the row was written, so merge both labels.
        ...marksTogether([row, run]),
        parts: parts as Prisma.InputJsonValue[],
      },
    })
  }

  /** The same for a run that continues under this claim, since a later claim may be writing. @throws RunLostError */
  async function interruptHeld(row: MessageRow, run: Run, hold: Hold): Promise<void> {
    const parts = await partsSoFar(row)
    const marks = marksTogether([row, run])
    await hold.write({ message: change(row.id, { parts, marks, end: { status: 'INTERRUPTED' } }, HELD) })
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

  /** Publishes that messages exist, and that they wait, even if that was published before. */
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

  /**
   * Returns the messages that no call will continue: their call is not in the journal, or was
   * settled without them. A composite message stays open for more parts, unless one of its parts is
   * lost: a part streamed by a generation that is not in the journal (a generation starts only
   * when all earlier calls are settled), or an unfinished part of a settled call.
   */
  async function orphansOf(rows: MessageRow[], calls: { id: string; settledAt: Date | null }[]): Promise<MessageRow[]> {
    const goesOn = new Set(calls.filter(({ settledAt }) => settledAt === null).map(({ id }) => id))
    const isLost = (part: MessagePart) =>
      isUnfinished(part) && (part.type === 'tool' ? !goesOn.has(part.toolCallId) : goesOn.size === 0)
    const streaming = rows.filter(({ status, runPostKey }) => status === 'STREAMING' && !goesOn.has(runPostKey ?? ''))
    const parts = await Promise.all(streaming.map(partsSoFar))
    return streaming.filter((row, index) => !row.composite || parts[index]?.some(isLost))
  }

  /** The messages with a call that will still be answered although its run has ended. */
  async function waitedFor(rows: MessageRow[]): Promise<Set<string | null>> {
    const open = rows.filter(({ status }) => !isWhole(status)).map(({ id }) => id)
    const calls = await db.prisma.toolCall.findMany({
      where: { messageId: { in: open }, OR: [{ status: 'WAITING' }, { carryAt: { not: null } }] },
    })
    return new Set(calls.map(({ messageId }) => messageId))
  }

  /** Cleans up after a run that was canceled or failed. */
  async function tidyUp(run: Run): Promise<void> {
    const rows = await db.prisma.message.findMany({ where: { runId: run.id }, orderBy: { seq: 'asc' } })
    const topic = runTopic(run.id)
    // The run has ended, so it begins no further messages in these or other spaces.
    await log.seal(topic, [topic, ...new Set(rows.map(({ spaceId }) => spaceTopic(spaceId)))])
    const waited = await waitedFor(rows)
    const over = rows.filter(({ id }) => !waited.has(id))
    for (const row of over) if (!isWhole(row.status)) await interrupt(row, run)
    await announceToolCalls(run.id, rows)
    await announceEnds(over)
  }

  async function settle(run: Run, end: RunLogEvent): Promise<void> {
    const topic = runTopic(run.id)
    // Seal first: a suspended worker may still publish events of the run, and none may follow its end.
    if (run.status !== 'COMPLETED') await tidyUp(run)
    await Promise.all([
      ...(run.status === 'COMPLETED' ? [log.seal(topic, [topic])] : []),
      log.append(topic, end, { once: 'end' }),
      log.expire(topic, KEPT_AFTER_END_SECONDS),
    ])
  }

  async function takeOver(run: Run): Promise<void> {
    const hold = holdOf(db, { run, attempt: run.attempt })
    const [rows, calls] = await Promise.all([
      db.prisma.message.findMany({ where: { runId: run.id }, orderBy: { seq: 'asc' } }),
      db.prisma.toolCall.findMany({ where: { runId: run.id } }),
    ])
    const orphans = await orphansOf(rows, calls.filter(isJournaled))
    for (const row of orphans) await interruptHeld(row, run, hold)
    if (!calls.every(isJournaled)) {
      await hold.write({ calls: brokenOff(run.id) })
      await announceToolCalls(run.id, rows)
    }
    const isOver = (row: MessageRow) => isWhole(row.status) || orphans.includes(row)
    await announceOpen(rows.filter((row) => !isOver(row)))
    await announceEnds(rows.filter(isOver))
  }

  return {
    settle,
    takeOver: (run) => takeOver(run).catch(unlessLost),
    async sweep() {
      const runs = await db.prisma.$queryRaw<Run[]>`
        SELECT DISTINCT r.* FROM "Message" m JOIN "Run" r ON r.id = m."runId"
        WHERE m.status IN ('STREAMING', 'REQUIRES_ACTION') AND r.status IN ('COMPLETED', 'FAILED', 'CANCELED')
          AND r."finishedAt" < now() - interval '10 seconds'
          AND NOT EXISTS (SELECT 1 FROM "ToolCall" c WHERE c."messageId" = m.id AND ${IS_LEFT_TO_OTHERS}) LIMIT 100`
      for (const run of runs) await settle(run, endEventOf(run))
    },
  }
}
