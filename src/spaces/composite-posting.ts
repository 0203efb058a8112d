import { type EntityKind, Prisma, type ToolCall } from '../generated/prisma/client.ts'
import { type Json, jsonbText } from '../lib/json.ts'
import type { Tx } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'
import { createCallNews } from './call-news.ts'
import { compositeNumber, isUnfinished, type Message, type MessagePart, messageOfRow } from './message.ts'
import { createMessageNews } from './message-news.ts'
import { type MessageLease, type PostingHooks, RunLostError, runFence, type ToolResult } from './posting.ts'
import { type ShownCall, showCall } from './shown-call.ts'

/** How a message grows that has several parts. `parts` are always all of them; the new one stands last. */
export interface CompositePosting {
  /** Whether an agent may write in a space, and mention another there; and the last message there now. */
  mayWrite(input: { spaceId: string; senderId: string; mention: string | null }): Promise<MayWrite>
  /** What a run that is taken up again has begun, by space. */
  begunBy(runId: string): Promise<BegunComposites[]>
  /** A text part is whole; the result of the call that wrote it is journaled with it. @throws RunLostError */
  addText(message: MessageLease, parts: MessagePart[], result: ToolResult): Promise<void>
  /** A call shows, running or waiting for its answer. @throws RunLostError */
  addCall(message: MessageLease, parts: MessagePart[], shown: ShownCall): Promise<void>
  /** What a shown call came to. @throws RunLostError */
  settleCall(message: MessageLease, partIndex: number, result: ToolResult): Promise<void>
  /**
   * No more parts will come. While a call that it shows waits for an answer it is REQUIRES_ACTION, and whole once that
   * is given; else it is whole now, and routed. @throws RunLostError; BadInputError where the one mentioned has left
   */
  finish(message: MessageLease, parts: MessagePart[], end: CompositeEnd): Promise<Message>
}

/** A run's composite messages in one space. */
export interface BegunComposites {
  spaceId: string
  count: number
  /** The whole parts of the last one, if it is still open for more. */
  parts: MessagePart[] | null
}

export type MayWrite = { type: 'yes'; lastSeq: number } | { type: 'not-a-member' } | { type: 'mentions-no-agent' }

/** What ends a composite message, and is written in the same transaction. */
export interface CompositeEnd {
  mention: string | null
  /** The part that is new: a text that is whole, or a call that shows and waits. Absent when the parts were there before. */
  adds?: { type: 'text' } | { type: 'call'; shown: ShownCall }
  /** The call that is settled by it. */
  result?: ToolResult
  /** The call that goes on, and what it must remember. */
  remembers?: { toolCallId: string; state: Json }
}

export function createCompositePosting(platform: Platform, hooks: PostingHooks): CompositePosting {
  const { db } = platform
  const news = createMessageNews(platform)
  const callNews = createCallNews(platform)

  /** Runs in a transaction in which the run is this claim's, and no answer to one of its calls comes in between. */
  function fenced<T>({ runId, attempt }: MessageLease, work: (tx: Tx) => Promise<T>): Promise<T> {
    return db.transaction(async (tx) => {
      const [held] = await tx.$queryRaw<unknown[]>(runFence(runId, attempt))
      if (held === undefined) throw new RunLostError(runId)
      return work(tx)
    })
  }

  const tellIfWaits = async (call: ToolCall | null) => {
    if (call?.status === 'WAITING') await callNews.waits(call)
  }

  return {
    async mayWrite({ spaceId, senderId, mention }) {
      const [place] = await db.prisma.$queryRaw<{ lastSeq: number; mentionedKind: EntityKind | null }[]>`
        SELECT s."lastSeq", e.kind AS "mentionedKind" FROM "Space" s
        JOIN "Membership" m ON m."spaceId" = s.id AND m."entityId" = ${senderId}
        LEFT JOIN "Membership" o ON o."spaceId" = s.id AND o."entityId" = ${mention}
        LEFT JOIN "Entity" e ON e.id = o."entityId"
        WHERE s.id = ${spaceId}`
      if (place === undefined) return { type: 'not-a-member' }
      if (mention !== null && place.mentionedKind !== 'AGENT') return { type: 'mentions-no-agent' }
      return { type: 'yes', lastSeq: place.lastSeq }
    },
    async begunBy(runId) {
      const rows = await db.prisma.message.findMany({ where: { runId }, orderBy: { seq: 'asc' } })
      const bySpace = Map.groupBy(
        rows.filter((row) => compositeNumber(row) !== null),
        ({ spaceId }) => spaceId,
      )
      return [...bySpace].map(([spaceId, messages]) => {
        const last = messages.at(-1)
        const parts =
          last?.status === 'STREAMING' ? messageOfRow(last).parts.filter((part) => !isUnfinished(part)) : null
        return { spaceId, count: messages.length, parts }
      })
    },
    async addText(lease, parts, result) {
      await fenced(lease, async (tx) => {
        await writeParts(tx, lease, parts)
        await settle(tx, result)
      })
      await news.partWhole(lease, parts.length - 1)
    },
    async addCall(lease, parts, shown) {
      const call = await fenced(lease, async (tx) => {
        await writeParts(tx, lease, parts)
        return showCall(tx, lease, shown)
      })
      await news.partChanged(lease, parts.length - 1)
      await tellIfWaits(call)
    },
    async settleCall(lease, partIndex, result) {
      await fenced(lease, (tx) => settle(tx, result))
      await news.partChanged(lease, partIndex)
    },
    async finish(lease, parts, end) {
      const { call, message, routed } = await fenced(lease, async (tx) => {
        const call = end.adds?.type === 'call' ? await showCall(tx, lease, end.adds.shown) : null
        const message = await close(tx, lease, parts, end)
        return { call, message, routed: message.routedAt === null ? null : await hooks.route(tx, message) }
      })
      await announceFinish(lease, parts, end, routed === null)
      await tellIfWaits(call)
      await routed?.afterCommit()
      return message
    },
  }

  async function announceFinish(lease: MessageLease, parts: MessagePart[], end: CompositeEnd, waits: boolean) {
    const last = parts.length - 1
    if (end.adds?.type === 'call') await news.partChanged(lease, last)
    else if (end.result !== undefined && end.adds === undefined)
      await news.partChanged(lease, indexOfCall(parts, end.result))
    if (!waits) return news.ended(lease, end.adds?.type === 'text' ? last : null)
    if (end.adds?.type === 'text') await news.partWhole(lease, last)
    await news.updated(lease)
  }
}

function indexOfCall(parts: MessagePart[], { toolCallId }: ToolResult): number {
  return parts.findIndex((part) => part.type === 'tool' && part.toolCallId === toolCallId)
}

async function writeParts(tx: Tx, { id, runId }: MessageLease, parts: MessagePart[]): Promise<void> {
  const count = await tx.$executeRaw`
    UPDATE "Message" SET parts = ${jsonbText(parts)}::jsonb WHERE id = ${id} AND status = 'STREAMING'`
  if (count === 0) throw new RunLostError(runId)
}

async function settle(tx: Tx, { toolCallId, status, output, error }: ToolResult): Promise<void> {
  await tx.$executeRaw`
    UPDATE "ToolCall" SET status = ${status}::"ToolCallStatus", output = ${jsonbText(output)}::jsonb, error = ${error},
      "settledAt" = now()
    WHERE id = ${toolCallId}`
}

/** A statement of its own, after the fence: it must see the answers that came while the fence was waited for. */
async function close(tx: Tx, { id, runId }: MessageLease, parts: MessagePart[], end: CompositeEnd): Promise<Message> {
  const { mention, result, remembers } = end
  if (result !== undefined) await settle(tx, result)
  if (remembers !== undefined) {
    const { toolCallId, state } = remembers
    await tx.$executeRaw`UPDATE "ToolCall" SET state = ${jsonbText(state)}::jsonb WHERE id = ${toolCallId}`
  }
  const waits = Prisma.sql`EXISTS (SELECT 1 FROM "ToolCall" WHERE "messageId" = ${id} AND status = 'WAITING')`
  const [row] = await tx.$queryRaw<Prisma.MessageGetPayload<object>[]>`
    UPDATE "Message" SET parts = ${jsonbText(parts)}::jsonb, "mentionedAgentId" = ${mention},
      status = CASE WHEN ${waits} THEN 'REQUIRES_ACTION' ELSE 'COMPLETE' END::"MessageStatus",
      "routedAt" = CASE WHEN ${waits} THEN NULL ELSE now() END
    WHERE id = ${id} AND status = 'STREAMING' RETURNING *`
  if (row === undefined) throw new RunLostError(runId)
  return messageOfRow(row)
}
