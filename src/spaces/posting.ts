import { ConflictError, NotFoundError } from '../lib/errors.ts'
import { newId } from '../lib/ids.ts'
import { checkIdempotencyKey, checkMessageText } from '../lib/validate.ts'
import { isUniqueViolation } from '../platform/database-errors.ts'
import type { Tx } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'
import { spaceChannel } from '../realtime/topics.ts'
import type { Announcer } from './announcer.ts'
import { NO_SUCH_SPACE } from './members.ts'
import { type Message, messageOfRow } from './message.ts'
import { createMessageNews } from './message-news.ts'
import { insertion, type MessageRow } from './message-statements.ts'

/** What routing did with a message, within the transaction that made it whole. `R`: what it calls a run. */
export interface Routed<R> {
  /** The runs that it started. */
  runs: R[]
  /** Tells the world, once committed. */
  afterCommit(): Promise<void>
}

export interface PostingHooks<R> {
  /** Decides who wakes, and writes runs, inbox events and outcomes in the message's own transaction. */
  route(tx: Tx, message: Message): Promise<Routed<R>>
  /** The runs that it started for a message before. */
  startedBy(messageId: string): Promise<R[]>
}

/** A message that a human sends. */
export interface HumanMessage {
  spaceId: string
  senderId: string
  text: string
  mentionedAgentId: string | null
  idempotencyKey: string | null
}

/** How people's messages come into being, and how any message becomes whole that waited for an answer. */
export interface Posting<R> {
  /** A human's message, whole at once. */
  send(message: HumanMessage): Promise<{ message: Message; runs: R[] }>
  /** Makes whole, within a transaction, a message that showed a call which is answered now: routed, unless it was when it showed it. */
  finishAnswered(tx: Tx, messageId: string): Promise<{ afterCommit(): Promise<void> }>
}

export function createPosting<R>(platform: Platform, announcer: Announcer, hooks: PostingHooks<R>): Posting<R> {
  const { db, signals } = platform
  const news = createMessageNews(platform)

  return {
    async send({ idempotencyKey: key, ...given }) {
      const text = checkMessageText(given.text, 'input.text')
      const idempotencyKey = key === null ? null : checkIdempotencyKey(key, 'input.idempotencyKey')
      const input = { ...given, text, idempotencyKey }
      const posted = await db
        .transaction((tx) => insertHumanMessage(tx, input, hooks))
        .catch((error) => repeatOf(error, platform, input, hooks))
      if (posted.routed !== null) {
        await announcer.announce(posted.message)
        await posted.routed.afterCommit()
        await signals.publish(spaceChannel(posted.message.spaceId), { type: 'message' })
      }
      return { message: posted.message, runs: posted.runs }
    },

    async finishAnswered(tx, messageId) {
      const [row] = await tx.$queryRaw<(MessageRow & { wasRouted: boolean })[]>`
        UPDATE "Message" m SET status = 'COMPLETE', "routedAt" = coalesce(m."routedAt", now())
        FROM (SELECT id, "routedAt" IS NOT NULL AS "wasRouted" FROM "Message" WHERE id = ${messageId} FOR UPDATE) before
        WHERE m.id = before.id AND m.status = 'REQUIRES_ACTION' RETURNING m.*, before."wasRouted"`
      if (row === undefined) return { async afterCommit() {} }
      const { wasRouted, ...written } = row
      const message = messageOfRow(written)
      const routed = wasRouted ? null : await hooks.route(tx, message)
      return {
        async afterCommit() {
          await news.ended(message, lastPartOf(message))
          await routed?.afterCommit()
        },
      }
    },
  }
}

/** The index of a message's last part; null for none. */
export function lastPartOf({ parts }: Pick<Message, 'parts'>): number | null {
  return parts.length === 0 ? null : parts.length - 1
}

/** Its number and itself in one statement, for a member only. */
async function insertHumanMessage<R>(tx: Tx, input: HumanMessage, hooks: PostingHooks<R>) {
  const { text, ...given } = input
  const id = newId('msg')
  const { counter, message: inserted } = insertion({
    ...given,
    id,
    status: 'COMPLETE',
    parts: [{ type: 'text', text }],
    rootId: id,
    depth: 0,
  })
  const [row] = await tx.$queryRaw<MessageRow[]>`
    WITH counter AS (${counter}), message AS (${inserted}) SELECT * FROM message`
  if (row === undefined) throw new NotFoundError(NO_SUCH_SPACE)
  const message = messageOfRow(row)
  const routed = await hooks.route(tx, message)
  return { message, runs: routed.runs, routed }
}

/** The unique key (space, sender, idempotency key) refused the insert: answers with the first message, if it says the same. */
async function repeatOf<R>(error: unknown, { db }: Platform, input: HumanMessage, hooks: PostingHooks<R>) {
  if (!isUniqueViolation(error) || input.idempotencyKey === null) throw error
  const { spaceId, senderId, idempotencyKey } = input
  const row = await db.prisma.message.findFirst({ where: { spaceId, senderId, idempotencyKey } })
  if (row === null) throw error
  const message = messageOfRow(row)
  const [part] = message.parts
  const same = part?.type === 'text' && part.text === input.text && message.mentionedAgentId === input.mentionedAgentId
  if (!same) throw new ConflictError('This idempotency key was used for a message with other content.')
  return { message, runs: await hooks.startedBy(message.id), routed: null }
}
