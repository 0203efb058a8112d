import { type Marks, type Provenance, setsOf, UNMARKED } from '../confidentiality/marks.ts'
import { type MessageStatus, Prisma } from '../generated/prisma/client.ts'
import { jsonbText } from '../lib/json.ts'
import type { Tx } from '../platform/db.ts'
import { type Message, type MessageOrigin, type MessagePart, messageOfRow } from '../rules/message.ts'
import type { FinalMessageStatus } from '../rules/statuses.ts'
import type { ReplyPlace } from '../rules/threads.ts'
import { unpublished } from './change-store.ts'
import { deleteFilesOfMessages } from './file-store.ts'
import type { Fork } from './fork-store.ts'
import { OPEN_MESSAGES_SQL } from './status-sql.ts'

// Contains the statements that write the tables "Message", "MessageVersion" and "MessageReaction". Functions whose
// name ends in `Sql` return CTEs, so that callers can add other writes to the statement. Import, retention and
// redaction (in operation/) process many tables generically and do not use this file.

export type MessageRow = Prisma.MessageGetPayload<object>

/** A message to write. It is routed in the transaction that finishes it. */
export interface NewMessage {
  id: string
  spaceId: string
  senderId: string
  status: MessageStatus
  parts: MessagePart[]
  mentionedAgentId: string | null
  mentionedIds?: string[]
  rootId: string
  depth: number
  /** Must be unique among the messages of the sender in the space. A repeated key violates the unique constraint. */
  idempotencyKey?: string | null
  runId?: string
  runPostKey?: string
  composite?: boolean
  fromPlainText?: boolean
  actingAdminId?: string | null
  acted?: boolean
  origin?: MessageOrigin | null
  /** The id of the message to which this message replies; absent if it is not a reply. */
  replyToId?: string | null
  threadRootId?: string | null
  /** The provenance, for a message of an agent. */
  provenance?: Provenance
}

/** Returns the row of a message, without the columns that the database sets. */
export function rowOf({
  provenance = UNMARKED,
  ...given
}: NewMessage): Omit<Message, 'seq' | 'routedAt' | 'createdAt'> {
  return {
    mentionedIds: [],
    idempotencyKey: null,
    runId: null,
    runPostKey: null,
    composite: false,
    fromPlainText: false,
    actingAdminId: null,
    acted: false,
    replyToId: null,
    threadRootId: null,
    origin: null,
    editedAt: null,
    deletedAt: null,
    reactionCount: 0,
    ...given,
    ...provenance,
  }
}

/**
 * Inserts the message with the number that the CTE `counter` (`countMessageSql`) has assigned. Returns the row, or no
 * row if `counter` returned none. A repeated message violates the unique key.
 */
export function insertMessageSql(given: NewMessage): Prisma.Sql {
  const row = rowOf(given)
  const { status, parts, origin, places, label, askers } = row
  return Prisma.sql`
    INSERT INTO "Message" (id, "spaceId", seq, "senderId", status, parts, "mentionedAgentId", "mentionedIds", "idempotencyKey", "runId", "runPostKey",
      composite, "fromPlainText", "actingAdminId", acted, "replyToId", "threadRootId", "rootId", depth, origin, places, label, askers, "routedAt")
    SELECT ${row.id}, id, "lastSeq", ${row.senderId}, ${status}::"MessageStatus", ${jsonbText(parts)}::jsonb,
      ${row.mentionedAgentId}, ${row.mentionedIds}::text[], ${row.idempotencyKey}, ${row.runId}, ${row.runPostKey}, ${row.composite}::boolean, ${row.fromPlainText}::boolean, ${row.actingAdminId}, ${row.acted}::boolean, ${row.replyToId}, ${row.threadRootId}, ${row.rootId}, ${row.depth}::int,
      ${origin === null ? null : jsonbText(origin)}::jsonb, ${places}::text[], ${label}::text[], ${askers}::text[], CASE WHEN ${status === 'COMPLETE'}::boolean THEN now() END
    FROM counter RETURNING *`
}

/** A change to an unfinished message. */
export interface MessageChange {
  parts: MessagePart[]
  /** The current marks of the message's content. */
  marks: Marks
  /**
   * Set if the message belongs to another thread than the one in which it was started. This happens if the model
   * generates `replyTo` after a part of the text has already been streamed.
   */
  place?: ReplyPlace
  /**
   * If absent, the message stays unfinished. If present, the message is finished with `status`, unless the condition
   * `waits` holds. In that case, it becomes REQUIRES_ACTION, and is routed once it is answered. A message that
   * mentions somebody or asks for a reply is routed immediately.
   */
  end?: {
    status: 'COMPLETE' | 'REQUIRES_ACTION' | 'INTERRUPTED'
    mentionedAgentId?: string | null
    waits?: Prisma.Sql
    asks?: boolean
  }
}

/** Changes a message if it is still STREAMING and `condition` holds. Returns its row. */
export function changeMessageSql(
  id: string,
  { parts, marks, place, end }: MessageChange,
  condition = Prisma.sql`true`,
): Prisma.Sql {
  const placed =
    place === undefined
      ? Prisma.empty
      : Prisma.sql`, "replyToId" = ${place.replyToId}, "threadRootId" = ${place.threadRootId}`
  const open = Prisma.sql`WHERE id = ${id} AND status = 'STREAMING' AND ${condition} RETURNING *`
  if (end === undefined)
    return Prisma.sql`UPDATE "Message" SET parts = ${jsonbText(parts)}::jsonb, ${setsOf(marks)}${placed} ${open}`
  const { status, waits = Prisma.sql`false`, mentionedAgentId = null, asks = false } = end
  const isRoutedLater = mentionedAgentId === null && !asks ? waits : Prisma.sql`false`
  return Prisma.sql`
    UPDATE "Message" SET parts = ${jsonbText(parts)}::jsonb, ${setsOf(marks)}${placed},
      "mentionedAgentId" = ${mentionedAgentId},
      status = CASE WHEN ${waits} THEN 'REQUIRES_ACTION' ELSE ${status} END::"MessageStatus",
      "routedAt" = CASE WHEN ${isRoutedLater} THEN NULL ELSE now() END
    ${open}`
}

/**
 * Finishes a message whose call has been answered. Returns its row, with `wasRouted`, which is true if the message
 * was already routed. Returns undefined if the message does not wait for an answer.
 */
export async function finishAnswered(
  tx: Tx,
  messageId: string,
  status: FinalMessageStatus,
): Promise<(MessageRow & { wasRouted: boolean }) | undefined> {
  const [row] = await tx.$queryRaw<(MessageRow & { wasRouted: boolean })[]>`
    UPDATE "Message" m SET status = ${status}::"MessageStatus", "routedAt" = coalesce(m."routedAt", now())
    FROM (SELECT id, "routedAt" IS NOT NULL AS "wasRouted" FROM "Message" WHERE id = ${messageId} FOR UPDATE) before
    WHERE m.id = before.id AND m.status = 'REQUIRES_ACTION' RETURNING m.*, before."wasRouted"`
  return row
}

/**
 * Finishes an unfinished message of a run that has ended. Marks the message as routed, so that it wakes no agents.
 * Returns the key of the job that publishes the end of the run, or null if the message had already finished.
 */
export async function finishOpen(
  tx: Tx,
  id: string,
  { status, parts, marks }: { status: FinalMessageStatus; parts: MessagePart[]; marks: Marks },
): Promise<string | null> {
  const job = unpublished('run', Prisma.sql`SELECT "runId" AS id, "runId" FROM changed`)
  const finished = await tx.$queryRaw<unknown[]>`
    WITH changed AS (
      UPDATE "Message" SET status = ${status}::"MessageStatus", "routedAt" = now(), parts = ${jsonbText(parts)}::jsonb, ${setsOf(marks)}
      WHERE id = ${id} AND status IN ${OPEN_MESSAGES_SQL} RETURNING "runId"
    ), publication AS (${job.enqueueSql})
    SELECT "runId" FROM changed`
  return finished.length > 0 ? job.change : null
}

/** Sets the mention of a message that has no mention yet. */
export async function addMention(tx: Tx, id: string, mentionedAgentId: string): Promise<void> {
  await tx.message.updateMany({ where: { id, mentionedAgentId: null }, data: { mentionedAgentId } })
}

/** Removes the content, the files and the earlier texts of messages. */
export async function emptyMessages(tx: Tx, ids: string[]): Promise<void> {
  await deleteFilesOfMessages(tx, ids)
  await deleteVersions(tx, ids)
  // Clears the parts last. If the process died earlier, the message would still have parts, so its deletion would be
  // repeated.
  await tx.message.updateMany({ where: { id: { in: ids } }, data: { parts: [] } })
}

/** Reads a message and locks its row until the transaction ends. */
export async function lockMessage(tx: Tx, id: string): Promise<Message | null> {
  const [row] = await tx.$queryRaw<MessageRow[]>`SELECT * FROM "Message" WHERE id = ${id} FOR UPDATE`
  return row === undefined ? null : messageOfRow(row)
}

/** Replaces the parts and the marks of a message that the caller has locked. */
export async function rewriteMessage(
  tx: Tx,
  id: string,
  { parts, marks }: { parts: MessagePart[]; marks: Marks },
): Promise<Message & { editedAt: Date; change: string }> {
  const job = unpublished('message', Prisma.sql`SELECT ${id}::text AS id, ${id}::text AS "messageId"`)
  const [row] = await tx.$queryRaw<(MessageRow & { editedAt: Date })[]>`
    WITH publication AS (${job.enqueueSql})
    UPDATE "Message" SET parts = ${jsonbText(parts)}::jsonb, ${setsOf(marks)}, "editedAt" = clock_timestamp()
    WHERE id = ${id} RETURNING *`
  if (row === undefined) throw new Error(`message ${id} to be edited does not exist`)
  return { ...messageOfRow(row), editedAt: row.editedAt, change: job.change }
}

/** Records that an admin who acted as the sender has posted or edited this message of a human. */
export async function markActed(tx: Tx, id: string): Promise<void> {
  await tx.$executeRaw`UPDATE "Message" SET acted = true WHERE id = ${id}`
}

/** Removes all content of messages that the caller has locked. The sequence numbers and keys of the messages remain. */
export async function clearMessages(tx: Tx, ids: string[]): Promise<Message[]> {
  await deleteVersions(tx, ids)
  await tx.messageReaction.deleteMany({ where: { messageId: { in: ids } } })
  const rows = await tx.$queryRaw<MessageRow[]>`
    UPDATE "Message" SET parts = '[]', "mentionedAgentId" = NULL, "mentionedIds" = '{}', origin = NULL, "editedAt" = NULL,
      "reactionCount" = 0, "deletedAt" = clock_timestamp() WHERE id = ANY(${ids}::text[]) RETURNING *`
  return rows.map(messageOfRow)
}

// Earlier texts (the table "MessageVersion").

/** Returns the number of the newest earlier text of a message, or 0 if the message was not edited. */
export async function lastVersion(tx: Tx, messageId: string): Promise<number> {
  const { _max } = await tx.messageVersion.aggregate({ where: { messageId }, _max: { number: true } })
  return _max.number ?? 0
}

/** Stores the previous text of an edited message. Keeps at most `most` of the message's earlier texts. */
export async function insertVersion(
  tx: Tx,
  version: { messageId: string; number: number; text: string; editedAt: Date },
  most: number,
): Promise<void> {
  const { messageId, number } = version
  await tx.messageVersion.create({ data: version })
  await tx.messageVersion.deleteMany({ where: { messageId, number: { lte: number - most } } })
}

/** Returns the stored earlier texts of messages. */
export async function versionsOf(tx: Tx, messageIds: string[]): Promise<{ messageId: string; text: string }[]> {
  return tx.messageVersion.findMany({
    where: { messageId: { in: messageIds } },
    select: { messageId: true, text: true },
  })
}

async function deleteVersions(tx: Tx, messageIds: string[]): Promise<void> {
  await tx.messageVersion.deleteMany({ where: { messageId: { in: messageIds } } })
}

// Reactions (the table "MessageReaction").

/** A reaction of an entity to a message that the caller has locked. */
export interface Reaction {
  messageId: string
  emoji: string
  entityId: string
}

/** Returns the emojis with which people and agents have reacted to a message. */
export async function emojisOf(tx: Tx, messageId: string): Promise<string[]> {
  const rows = await tx.messageReaction.findMany({ where: { messageId }, distinct: ['emoji'], select: { emoji: true } })
  return rows.map(({ emoji }) => emoji)
}

/**
 * Adds or removes a reaction.
 * @returns the key of the job that publishes the change if this process dies before it can (change-store.ts); null if
 * there was nothing to change
 */
export async function setReaction(tx: Tx, reaction: Reaction, on: boolean): Promise<{ change: string } | null> {
  const { messageId, emoji, entityId } = reaction
  const job = unpublished('message', Prisma.sql`SELECT "messageId" AS id, "messageId" FROM changed`)
  const write = on
    ? Prisma.sql`INSERT INTO "MessageReaction" ("messageId", emoji, "entityId", "createdAt")
        VALUES (${messageId}, ${emoji}, ${entityId}, clock_timestamp()) ON CONFLICT DO NOTHING`
    : Prisma.sql`DELETE FROM "MessageReaction" WHERE "messageId" = ${messageId} AND emoji = ${emoji} AND "entityId" = ${entityId}`
  const changed = await tx.$queryRaw<unknown[]>`
    WITH changed AS (${write} RETURNING "messageId"), publication AS (${job.enqueueSql}) SELECT * FROM changed`
  if (changed.length === 0) return null
  await tx.message.update({ where: { id: messageId }, data: { reactionCount: { increment: on ? 1 : -1 } } })
  return { change: job.change }
}

/** Removes all reactions of an entity. */
export async function deleteReactionsOf(tx: Tx, entityId: string): Promise<void> {
  await tx.$executeRaw`
    WITH gone AS (DELETE FROM "MessageReaction" WHERE "entityId" = ${entityId} RETURNING "messageId")
    UPDATE "Message" m SET "reactionCount" = m."reactionCount" - g.count
    FROM (SELECT "messageId", count(*)::int AS count FROM gone GROUP BY 1) g WHERE m.id = g."messageId"`
}

/** Locks the oldest messages of a space and returns their ids. Skips messages that other transactions have locked. */
export const lockOldestMessagesSql = (spaceId: string, most: number): Prisma.Sql =>
  Prisma.sql`SELECT id FROM "Message" WHERE "spaceId" = ${spaceId} ORDER BY seq LIMIT ${most} FOR UPDATE SKIP LOCKED`

/** Deletes the messages whose ids the subquery returns. */
export const deleteMessagesSql = (ids: Prisma.Sql): Prisma.Sql => Prisma.sql`DELETE FROM "Message" WHERE id IN (${ids})`

/** A copied message that now belongs to a repeated run. */
export interface AdoptedMessage {
  id: string
  originalId: string
  composite: boolean
  parts: MessagePart[]
}

/** Assigns the copies of a run's messages to the new run that continues this run. */
export async function adoptMessages(
  tx: Tx,
  { fromId, intoId, atSeq }: Pick<Fork, 'fromId' | 'intoId' | 'atSeq'>,
  ids: { from: string; into: string },
): Promise<AdoptedMessage[]> {
  return tx.$queryRaw`
    UPDATE "Message" m SET "runId" = ${ids.into}, "runPostKey" = CASE WHEN o."runPostKey" LIKE 'tcl!_%' ESCAPE '!'
        THEN "copiedId"(o."runPostKey", ${intoId}) ELSE replace(o."runPostKey", ${fromId}, ${intoId}) END
    FROM "Message" o WHERE o."runId" = ${ids.from} AND o."spaceId" = ${fromId} AND o.seq <= ${atSeq} AND m.id = "copiedId"(o.id, ${intoId})
    RETURNING m.id, o.id AS "originalId", m.composite, m.parts`
}

/** Shortens a message to the given parts. */
export async function keepParts(tx: Tx, id: string, parts: readonly MessagePart[]): Promise<void> {
  await tx.message.update({ where: { id }, data: { parts: parts as unknown as Prisma.InputJsonValue } })
}
