import { type Marks, type Provenance, setsOf, UNMARKED } from '../confidence/marks.ts'
import { type MessageStatus, Prisma } from '../generated/prisma/client.ts'
import { jsonbText } from '../lib/json.ts'
import type { Message, MessageOrigin, MessagePart } from './message.ts'

// The statements that write messages, as parts of a WITH: whoever posts puts together with them what else it writes.

export type MessageRow = Prisma.MessageGetPayload<object>

/** A message that is to be written. Once it is whole it is routed, in the transaction that makes it so. */
export interface NewMessage {
  id: string
  spaceId: string
  senderId: string
  status: MessageStatus
  parts: MessagePart[]
  mentionedAgentId: string | null
  rootId: string
  depth: number
  /** The same key of a sender, or of an origin, posts once: a second time it is a unique violation. */
  idempotencyKey?: string | null
  runId?: string
  runPostKey?: string
  composite?: boolean
  origin?: MessageOrigin | null
  /** Of an agent's. */
  provenance?: Provenance
}

/** A message as its row has it, but for what the database adds. */
export function rowOf({
  provenance = UNMARKED,
  ...given
}: NewMessage): Omit<Message, 'seq' | 'routedAt' | 'createdAt'> {
  return {
    ...{ idempotencyKey: null, runId: null, runPostKey: null, composite: false, origin: null },
    ...given,
    ...provenance,
  }
}

/**
 * `counter`, the space's with the message's number, where the sender is a member; then `message`, which answers with its row.
 * A repeat fails on its unique key, so that the counter stays as it was. Neither yields a row where `condition`, on the space's row, does
 * not hold.
 */
export function insertion(given: NewMessage, condition = Prisma.sql`true`): Record<'counter' | 'message', Prisma.Sql> {
  const { spaceId, senderId } = given
  const isMember = Prisma.sql`EXISTS (SELECT 1 FROM "Membership" WHERE "spaceId" = ${spaceId} AND "entityId" = ${senderId})`
  return insertionWhere(given, Prisma.sql`${condition} AND ${isMember}`)
}

/** The same where `condition` holds, which says too that the sender is a member. `turn` is taken with it. */
export function insertionWhere(given: NewMessage, condition: Prisma.Sql, turn: Turn | null = null) {
  const row = rowOf(given)
  const { spaceId, status, parts, origin, places, label, askers } = row
  const isWhole = status === 'COMPLETE'
  const counter = Prisma.sql`
    UPDATE "Space" SET "lastSeq" = "lastSeq" + 1${turn === null ? Prisma.empty : taken(turn)} WHERE id = ${spaceId} AND ${condition}
    RETURNING id, "lastSeq", version`
  const message = Prisma.sql`
    INSERT INTO "Message" (id, "spaceId", seq, "senderId", status, parts, "mentionedAgentId", "idempotencyKey", "runId", "runPostKey",
      composite, "rootId", depth, origin, places, label, askers, "routedAt")
    SELECT ${row.id}, id, "lastSeq", ${row.senderId}, ${status}::"MessageStatus", ${jsonbText(parts)}::jsonb,
      ${row.mentionedAgentId}, ${row.idempotencyKey}, ${row.runId}, ${row.runPostKey}, ${row.composite}::boolean, ${row.rootId}, ${row.depth}::int,
      ${origin === null ? null : jsonbText(origin)}::jsonb, ${places}::text[], ${label}::text[], ${askers}::text[], CASE WHEN ${isWhole}::boolean THEN now() END
    FROM counter RETURNING *`
  return { counter, message }
}

/** Somebody begins to wait for a reply to the `message`: whoever decided on the space before decides anew. */
export const ROOM_OF_WAIT = Prisma.sql`UPDATE "Space" SET version = version + 1 FROM message WHERE "Space".id = message."spaceId"`

/** A condition: the space is as it was when it had this version. */
export const isVersion = (spaceId: string, version: number) =>
  Prisma.sql`EXISTS (SELECT 1 FROM "Space" WHERE id = ${spaceId} AND version = ${version})`

/** The agent whose turn it was in the space, and when it had joined, in ms. */
export interface Turn {
  id: string
  joinedAt: number
}

const taken = ({ id, joinedAt }: Turn) =>
  Prisma.sql`, "lastPickedId" = ${id}, "lastPickedJoinedAt" = ${new Date(joinedAt)}`

/** What changes of a message that is being written. */
export interface MessageChange {
  parts: MessagePart[]
  /** What it comes from by now. */
  marks: Marks
  /**
   * Absent: it goes on being written. Each status ends it; `waits`: unless that, then it is REQUIRES_ACTION, and routed once it
   * is answered, or at once where it mentions somebody, or asks itself.
   */
  end?: {
    status: 'COMPLETE' | 'REQUIRES_ACTION' | 'INTERRUPTED'
    mentionedAgentId?: string | null
    waits?: Prisma.Sql
    asks?: boolean
  }
}

/** Changes a message and answers with its row, as long as it is STREAMING and `condition` holds. */
export function change(id: string, { parts, marks, end }: MessageChange, condition = Prisma.sql`true`): Prisma.Sql {
  const open = Prisma.sql`WHERE id = ${id} AND status = 'STREAMING' AND ${condition} RETURNING *`
  if (end === undefined)
    return Prisma.sql`UPDATE "Message" SET parts = ${jsonbText(parts)}::jsonb, ${setsOf(marks)} ${open}`
  const { status, waits = Prisma.sql`false`, mentionedAgentId = null, asks = false } = end
  const isRoutedLater = mentionedAgentId === null && !asks ? waits : Prisma.sql`false`
  return Prisma.sql`
    UPDATE "Message" SET parts = ${jsonbText(parts)}::jsonb, ${setsOf(marks)},
      "mentionedAgentId" = ${mentionedAgentId},
      status = CASE WHEN ${waits} THEN 'REQUIRES_ACTION' ELSE ${status} END::"MessageStatus",
      "routedAt" = CASE WHEN ${isRoutedLater} THEN NULL ELSE now() END
    ${open}`
}
