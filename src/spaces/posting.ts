import { Prisma, type Run } from '../generated/prisma/client.ts'
import { ConflictError, NotFoundError } from '../lib/errors.ts'
import { newId } from '../lib/ids.ts'
import { type Json, jsonbText } from '../lib/json.ts'
import { checkIdempotencyKey, checkMessageText } from '../lib/validate.ts'
import { isUniqueViolation } from '../platform/database-errors.ts'
import type { Tx } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'
import { spaceChannel } from '../realtime/topics.ts'
import type { Announcer } from './announcer.ts'
import { NO_SUCH_SPACE } from './members.ts'
import { type Message, type MessageOrigin, type MessagePart, messageOfRow } from './message.ts'
import { createMessageNews } from './message-news.ts'
import { beginCall, type ShownCall, showCall } from './shown-call.ts'

/** What routing did with a message, within the transaction that made it whole. */
export interface Routed {
  /** The runs that it started. */
  runs: Run[]
  /** Tells the world, once committed. */
  afterCommit(): Promise<void>
}

export interface PostingHooks {
  /** Decides who wakes, and writes runs, inbox events and outcomes in the message's own transaction. */
  route(tx: Tx, message: Message): Promise<Routed>
}

/** A message that a human sends. */
export interface HumanMessage {
  spaceId: string
  senderId: string
  text: string
  mentionedAgentId: string | null
  idempotencyKey: string | null
}

/** A message that a run begins to write. */
export interface RunMessage {
  id: string
  spaceId: string
  senderId: string
  runId: string
  /** The run's claim: a later claim, a stop or an end makes every write of this one fail. */
  attempt: number
  /** What of the run posts it: the same key posts once. */
  postKey: string
  mentionedAgentId: string | null
  rootId: string
  depth: number
  origin: MessageOrigin | null
  /** The tool call that the message shows; absent for one that is written. */
  shows?: ShownCall
}

/** The run is over or was taken over by another worker: nothing of it may be written any more. */
export class RunLostError extends Error {
  constructor(runId: string) {
    super(`${runId} is no longer this worker's`)
    this.name = 'RunLostError'
  }
}

/** The one way in which messages come into being. */
export interface Posting {
  /** A human's message, whole at once. */
  send(message: HumanMessage): Promise<{ message: Message; runs: Run[] }>
  /** An agent's message, from its first character on: it has its `seq`, and status STREAMING. Null: the agent is not a member. */
  begin(message: RunMessage): Promise<Message | null>
  /** What of a message's text is kept should this process die: its draft is in the live log only. */
  save(message: MessageLease, parts: MessagePart[]): Promise<void>
  /** The message will not become whole: what was written of it stays. Settles its tool call, if there is one to settle. */
  interrupt(message: MessageLease, parts: MessagePart[], result: ToolResult | null): Promise<void>
  /** The message is whole: it is routed, and its tool call's result journaled, in one transaction. */
  finish(message: MessageLease, parts: MessagePart[], result: ToolResult | null): Promise<Message>
  /** Makes whole, within a transaction, a message that showed a call which is answered now. */
  finishAnswered(tx: Tx, messageId: string): Promise<{ afterCommit(): Promise<void> }>
}

/** A message, and the claim under which its run writes it. */
export interface MessageLease {
  id: string
  spaceId: string
  runId: string
  attempt: number
}

/** The result of the tool call that a message came from: journaled with it, so that a crash cannot separate the two. */
export interface ToolResult {
  toolCallId: string
  /** CANCELED: the model broke its input off. */
  status: 'DONE' | 'FAILED' | 'TIMED_OUT' | 'CANCELED'
  output: Json
  error: string | null
}

/**
 * A fence for one statement: it yields a row only while the run executes under this attempt, and holds off a stop until the
 * transaction ends.
 */
export function runFence(runId: string, attempt: number): Prisma.Sql {
  return Prisma.sql`SELECT 1 FROM "Run" WHERE id = ${runId} AND status = 'RUNNING' AND attempt = ${attempt} FOR SHARE`
}

export function createPosting(platform: Platform, announcer: Announcer, hooks: PostingHooks): Posting {
  const { db, signals } = platform
  const news = createMessageNews(platform)

  async function announce(message: Message, routed: Routed | null): Promise<void> {
    await announcer.announce(message)
    await routed?.afterCommit()
    await signals.publish(spaceChannel(message.spaceId), { type: 'message' })
  }

  return {
    async send({ idempotencyKey: key, ...given }) {
      const text = checkMessageText(given.text, 'input.text')
      const idempotencyKey = key === null ? null : checkIdempotencyKey(key, 'input.idempotencyKey')
      const input = { ...given, text, idempotencyKey }
      const posted = await db
        .transaction((tx) => insertHumanMessage(tx, input, hooks))
        .catch((error) => repeatOf(error, platform, input))
      if ('routed' in posted) await announce(posted.message, posted.routed)
      return { message: posted.message, runs: posted.runs }
    },

    async begin(input) {
      const { shows } = input
      const insert =
        shows === undefined
          ? insertRunMessage(db.prisma, input)
          : db.transaction(async (tx) => {
              const inserted = await insertRunMessage(tx, input)
              if (inserted === null) return null
              const { toolCallId, writing } = shows
              if (writing !== undefined) await beginCall(tx, input, toolCallId, writing)
              else await showCall(tx, input, shows)
              return inserted
            })
      const message = await insert.catch((error) => postedBefore(error, db.prisma, input))
      if (message === null) return null
      await announce(message, null)
      if (shows?.waitsUntil) await news.waiting(message, 0)
      return message
    },

    async save({ id, runId, attempt }, parts) {
      await db.prisma.$executeRaw`
        WITH fence AS (${runFence(runId, attempt)})
        UPDATE "Message" SET parts = ${jsonbText(parts)}::jsonb
        WHERE id = ${id} AND status = 'STREAMING' AND EXISTS (SELECT 1 FROM fence)`
    },

    async interrupt(lease, parts, result) {
      await db.transaction((tx) => closeMessage(tx, lease, 'INTERRUPTED', parts, result))
      await news.ended(lease, lastOf(parts))
    },

    async finish(lease, parts, result) {
      const { message, routed } = await db.transaction(async (tx) => {
        const message = await closeMessage(tx, lease, 'COMPLETE', parts, result)
        return { message, routed: await hooks.route(tx, message) }
      })
      await news.ended(lease, lastOf(parts))
      await routed.afterCommit()
      return message
    },

    async finishAnswered(tx, messageId) {
      const [row] = await tx.message.updateManyAndReturn({
        where: { id: messageId, routedAt: null },
        data: { status: 'COMPLETE', routedAt: new Date() },
      })
      if (row === undefined) return { async afterCommit() {} }
      const message = messageOfRow(row)
      const routed = await hooks.route(tx, message)
      return {
        async afterCommit() {
          await news.ended({ ...message, runId: null }, lastOf(message.parts))
          await routed.afterCommit()
        },
      }
    },
  }
}

function lastOf(parts: MessagePart[]): number | null {
  return parts.length === 0 ? null : parts.length - 1
}

/** Its number and itself in one statement, for a member only. */
async function insertHumanMessage(tx: Tx, input: HumanMessage, hooks: PostingHooks) {
  const { spaceId, senderId, mentionedAgentId, idempotencyKey } = input
  const id = newId('msg')
  const parts = jsonbText([{ type: 'text', text: input.text }])
  const [row] = await tx.$queryRaw<Prisma.MessageGetPayload<object>[]>`
    WITH counter AS (
      UPDATE "Space" SET "lastSeq" = "lastSeq" + 1 WHERE id = ${spaceId} AND EXISTS (
        SELECT 1 FROM "Membership" WHERE "spaceId" = ${spaceId} AND "entityId" = ${senderId})
      RETURNING id, "lastSeq"
    )
    INSERT INTO "Message" (id, "spaceId", seq, "senderId", status, parts, "mentionedAgentId", "idempotencyKey", "rootId", depth,
      "routedAt")
    SELECT ${id}, id, "lastSeq", ${senderId}, 'COMPLETE', ${parts}::jsonb, ${mentionedAgentId}, ${idempotencyKey}, ${id}, 0, now()
    FROM counter RETURNING *`
  if (row === undefined) throw new NotFoundError(NO_SUCH_SPACE)
  const message = messageOfRow(row)
  const routed = await hooks.route(tx, message)
  return { message, runs: routed.runs, routed }
}

/** The unique key (space, sender, idempotency key) refused the insert: answers with the first message, if it says the same. */
async function repeatOf(error: unknown, { db }: Platform, input: HumanMessage) {
  if (!isUniqueViolation(error) || input.idempotencyKey === null) throw error
  const { spaceId, senderId, idempotencyKey } = input
  const row = await db.prisma.message.findFirst({ where: { spaceId, senderId, idempotencyKey } })
  if (row === null) throw error
  const message = messageOfRow(row)
  const [part] = message.parts
  const same = part?.type === 'text' && part.text === input.text && message.mentionedAgentId === input.mentionedAgentId
  if (!same) throw new ConflictError('This idempotency key was used for a message with other content.')
  const outcomes = await db.prisma.outcome.findMany({
    where: { messageId: message.id, kind: { in: ['RUN', 'SKIPPED'] } },
  })
  const ids = outcomes.flatMap(({ runId }) => (runId === null ? [] : [runId]))
  return { message, runs: await db.prisma.run.findMany({ where: { id: { in: ids } }, orderBy: { id: 'asc' } }) }
}

/**
 * In one statement: the run's fence, the space's counter for a member, the space as one that the run wrote in, the message.
 * The same key a second time fails on its unique key, so that the counter stays as it was, and gives the first message.
 */
async function insertRunMessage(tx: Tx, input: RunMessage): Promise<Message | null> {
  const { shows, spaceId, senderId, runId, attempt, postKey } = input
  const parts: MessagePart[] = shows === undefined ? [] : [{ type: 'tool', toolCallId: shows.toolCallId }]
  const status = shows?.waitsUntil ? 'REQUIRES_ACTION' : 'STREAMING'
  const [row] = await tx.$queryRaw<Prisma.MessageGetPayload<object>[]>`
    WITH fence AS (${runFence(runId, attempt)}), counter AS (
      UPDATE "Space" SET "lastSeq" = "lastSeq" + 1 WHERE id = ${spaceId} AND EXISTS (SELECT 1 FROM fence) AND EXISTS (
        SELECT 1 FROM "Membership" WHERE "spaceId" = ${spaceId} AND "entityId" = ${senderId})
      RETURNING id, "lastSeq"
    ), written AS (
      INSERT INTO "RunSpace" ("runId", "spaceId") SELECT ${runId}, id FROM counter ON CONFLICT DO NOTHING
    )
    INSERT INTO "Message" (id, "spaceId", seq, "senderId", status, parts, "mentionedAgentId", "runId", "runPostKey", "rootId",
      depth, origin)
    SELECT ${input.id}, id, "lastSeq", ${senderId}, ${status}::"MessageStatus", ${jsonbText(parts)}::jsonb,
      ${input.mentionedAgentId}, ${runId}, ${postKey}, ${input.rootId}, ${input.depth},
      ${input.origin === null ? null : jsonbText(input.origin)}::jsonb
    FROM counter RETURNING *`
  if (row !== undefined) return messageOfRow(row)
  const [fence] = await tx.$queryRaw<unknown[]>`${runFence(runId, attempt)}`
  if (fence === undefined) throw new RunLostError(runId)
  return null
}

/** What a run posted under the key before, when posting it again was refused for that. */
async function postedBefore(error: unknown, tx: Tx, { runId, postKey }: RunMessage): Promise<Message> {
  const row = isUniqueViolation(error) ? await tx.message.findFirst({ where: { runId, runPostKey: postKey } }) : null
  if (row === null) throw error
  return messageOfRow(row)
}

/** The end of a message and the result of its tool call, in one statement, if the run is still the lease's. */
async function closeMessage(
  tx: Tx,
  { id, runId, attempt }: MessageLease,
  status: 'COMPLETE' | 'INTERRUPTED',
  parts: MessagePart[],
  result: ToolResult | null,
): Promise<Message> {
  const rows = await tx.$queryRaw<Prisma.MessageGetPayload<object>[]>`
    WITH fence AS (${runFence(runId, attempt)}), call AS (
      UPDATE "ToolCall" SET status = ${result?.status ?? 'DONE'}::"ToolCallStatus", output = ${jsonbText(result?.output ?? null)}::jsonb,
        error = ${result?.error ?? null}, "settledAt" = now()
      WHERE id = ${result?.toolCallId ?? null} AND EXISTS (SELECT 1 FROM fence)
    )
    UPDATE "Message" SET status = ${status}::"MessageStatus", parts = ${jsonbText(parts)}::jsonb, "routedAt" = now()
    WHERE id = ${id} AND "routedAt" IS NULL AND EXISTS (SELECT 1 FROM fence)
    RETURNING *`
  const [row] = rows
  if (row === undefined) throw new RunLostError(runId)
  return messageOfRow(row)
}
