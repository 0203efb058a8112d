import { type Provenance, UNMARKED } from '../confidence/marks.ts'
import { Prisma } from '../generated/prisma/client.ts'
import { ConflictError, NotFoundError } from '../lib/errors.ts'
import { newId } from '../lib/ids.ts'
import { checkIdempotencyKey, checkMessageText } from '../lib/validate.ts'
import { type Changes, statementOf } from '../platform/changes.ts'
import { isUniqueViolation } from '../platform/database-errors.ts'
import type { Tx } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'
import { spaceChannel, spaceTopic } from '../realtime/topics.ts'
import type { Announcer } from './announcer.ts'
import { NO_SUCH_SPACE } from './members.ts'
import { type Message, messageOfRow } from './message.ts'
import { createMessagePublisher } from './message-publisher.ts'
import { insertion, insertionWhere, type MessageRow, type NewMessage, rowOf, type Turn } from './message-statements.ts'

/** The result of routing a message in the transaction that finished it. `R`: the router's type of a run. */
export interface Routed<R> {
  /** The runs that the message started. */
  runs: R[]
  /** Publishes the effects after the commit. */
  afterCommit(): Promise<void>
}

/** The fields of a message that routing needs; an unfinished message may have no row yet. */
export type RoutedMessage = Pick<
  Message,
  'id' | 'spaceId' | 'senderId' | 'parts' | 'mentionedAgentId' | 'rootId' | 'depth' | 'runId' | keyof Provenance
>

/** A routing decision made with the cached state of the space, to be written in the same statement as the message. */
export interface Foreseen<R> {
  /** Conditions for the write: the space has this version, and `isAsKnown` covers what the version does not. */
  version: number
  isAsKnown: Prisma.Sql
  /** The turn that the message takes. */
  turn: Turn | null
  /** Changes that read from `message`; the last one, `routed`, returns its row and, as `came`, the effects. */
  changes: Changes
  /** `version`: the space's new version, if a turn was taken. */
  routedOf(came: unknown, version: number | null): Routed<R>
  /** The conditions did not hold: drops the cached state. */
  refused(): void
}

export interface PostingHooks<R> {
  /** Decides which agents wake, and writes runs, inbox events and outcomes in the message's transaction. */
  route(tx: Tx, message: Message): Promise<Routed<R>>
  /** The optimistic form, for a text message. Null: only a transaction can decide it. */
  foresee(message: RoutedMessage): Promise<Foreseen<R> | null>
  /** The runs that a message started earlier. */
  startedBy(messageId: string): Promise<R[]>
}

/** A message sent by a human. */
export interface HumanMessage {
  spaceId: string
  senderId: string
  text: string
  mentionedAgentId: string | null
  idempotencyKey: string | null
}

/** Posts messages of humans, and finishes messages that waited for an answer. */
export interface Posting<R> {
  /** Posts a human's message. */
  send(message: HumanMessage): Promise<{ message: Message; runs: R[] }>
  /**
   * Finishes, within a transaction, a message whose call has been answered, and routes it unless it
   * was routed. INTERRUPTED if it will not be answered: then it is not routed.
   */
  finishAnswered(
    tx: Tx,
    messageId: string,
    status?: 'COMPLETE' | 'INTERRUPTED',
  ): Promise<{ afterCommit(): Promise<void> }>
}

export function createPosting<R>(platform: Platform, announcer: Announcer, hooks: PostingHooks<R>): Posting<R> {
  const { signals } = platform
  const publisher = createMessagePublisher(platform)

  return {
    async send({ idempotencyKey: key, ...given }) {
      const text = checkMessageText(given.text, 'input.text')
      const idempotencyKey = key === null ? null : checkIdempotencyKey(key, 'input.idempotencyKey')
      const input = { ...given, text, idempotencyKey }
      const { message, routed } = await post(platform, input, hooks).catch(async (error) => ({
        message: await repeatOf(error, platform, input),
        routed: null,
      }))
      if (routed === null) return { message, runs: await hooks.startedBy(message.id) }
      await Promise.all([
        announcer.announce(message),
        routed.afterCommit(),
        signals.publish(spaceChannel(message.spaceId), { type: 'message' }, spaceTopic(message.spaceId)),
      ])
      return { message, runs: routed.runs }
    },

    async finishAnswered(tx, messageId, status = 'COMPLETE') {
      const [row] = await tx.$queryRaw<(MessageRow & { wasRouted: boolean })[]>`
        UPDATE "Message" m SET status = ${status}::"MessageStatus", "routedAt" = coalesce(m."routedAt", now())
        FROM (SELECT id, "routedAt" IS NOT NULL AS "wasRouted" FROM "Message" WHERE id = ${messageId} FOR UPDATE) before
        WHERE m.id = before.id AND m.status = 'REQUIRES_ACTION' RETURNING m.*, before."wasRouted"`
      if (row === undefined) return { async afterCommit() {} }
      const { wasRouted, ...written } = row
      const message = messageOfRow(written)
      const routed = wasRouted || status === 'INTERRUPTED' ? null : await hooks.route(tx, message)
      return {
        async afterCommit() {
          await publisher.ended(message, lastPartOf(message))
          await routed?.afterCommit()
        },
      }
    },
  }
}

/** The index of a message's last part; null if there is none. */
function lastPartOf({ parts }: Pick<Message, 'parts'>): number | null {
  return parts.length === 0 ? null : parts.length - 1
}

/** Posts with the optimistic decision in one statement; otherwise in a transaction that locks the space. */
async function post<R>(platform: Platform, input: HumanMessage, hooks: PostingHooks<R>) {
  const message = humanMessage(input)
  const foreseen = await hooks.foresee({ ...message, ...UNMARKED, runId: null })
  const posted = foreseen === null ? null : await insertForeseen(platform.db, message, foreseen)
  return posted ?? platform.db.transaction((tx) => insertHumanMessage(tx, message, hooks))
}

function humanMessage({ text, ...given }: HumanMessage): NewMessage {
  const id = newId('msg')
  return { ...given, id, status: 'COMPLETE', parts: [{ type: 'text', text }], rootId: id, depth: 0 }
}

/** Columns set by the statement, and the effects of routing. */
type Inserted = Pick<MessageRow, 'seq' | 'routedAt' | 'createdAt'> & { came: unknown; spaceVersion: number }

/** Null: the space has changed since it was cached. */
async function insertForeseen<R>(db: Platform['db'], given: NewMessage, foreseen: Foreseen<R>) {
  const { version, isAsKnown, turn, changes } = foreseen
  const inserted = insertionWhere(given, Prisma.sql`version = ${version} AND ${isAsKnown}`, turn)
  const answer = Prisma.sql`
    SELECT routed.seq, routed."routedAt", routed."createdAt", routed.came, counter.version AS "spaceVersion" FROM routed CROSS JOIN counter`
  const [row] = await db.query<Inserted>(statementOf({ ...inserted, ...changes, answer }, 'answer'))
  if (row === undefined) {
    foreseen.refused()
    return null
  }
  const { came, spaceVersion, ...added } = row
  return { message: { ...rowOf(given), ...added }, routed: foreseen.routedOf(came, spaceVersion) }
}

/** Inserts the message with its number in one statement, if the sender is a member. */
async function insertHumanMessage<R>(tx: Tx, given: NewMessage, hooks: PostingHooks<R>) {
  const [row] = await tx.$queryRaw<MessageRow[]>(statementOf(insertion(given), 'message'))
  if (row === undefined) throw new NotFoundError(NO_SUCH_SPACE)
  const message = messageOfRow(row)
  return { message, routed: await hooks.route(tx, message) }
}

/**
 * Handles a violation of the unique key (space, sender, idempotency key): returns the first message
 * if it has the same content.
 */
async function repeatOf(error: unknown, { db }: Platform, input: HumanMessage): Promise<Message> {
  if (!isUniqueViolation(error) || input.idempotencyKey === null) throw error
  const { spaceId, senderId, idempotencyKey } = input
  const row = await db.prisma.message.findFirst({ where: { spaceId, senderId, idempotencyKey } })
  if (row === null) throw error
  const message = messageOfRow(row)
  const [part] = message.parts
  const same = part?.type === 'text' && part.text === input.text && message.mentionedAgentId === input.mentionedAgentId
  if (!same) throw new ConflictError('This idempotency key has already been used for a message with different content.')
  return message
}
