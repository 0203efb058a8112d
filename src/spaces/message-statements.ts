import { type Marks, type Provenance, setsOf, UNMARKED } from '../confidence/marks.ts'
import { type MessageStatus, Prisma } from '../generated/prisma/client.ts'
import { jsonbText } from '../lib/json.ts'
import type { Message, MessageOrigin, MessagePart } from './message.ts'

// The statements that write messages, as parts of a WITH, so that callers can add their own writes.

export type MessageRow = Prisma.MessageGetPayload<object>

/** A message to be written. It is routed in the transaction that finishes it. */
export interface NewMessage {
  id: string
  spaceId: string
  senderId: string
  status: MessageStatus
  parts: MessagePart[]
  mentionedAgentId: string | null
  rootId: string
  depth: number
  /** Unique per sender or origin: a repeat is a unique violation. */
  idempotencyKey?: string | null
  runId?: string
  runPostKey?: string
  composite?: boolean
  origin?: MessageOrigin | null
  /** For a message of an agent. */
  provenance?: Provenance
}

/** A message as in its row, without what the database adds. */
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
 * The parts `counter`, which increments the space's message number if the sender is a member, and
 * `message`, which returns the new row. A repeat violates the unique key, so the counter is not
 * incremented. Both return nothing if `condition`, on the space's row, is false.
 */
export function insertion(given: NewMessage, condition = Prisma.sql`true`): Record<'counter' | 'message', Prisma.Sql> {
  const { spaceId, senderId } = given
  const isMember = Prisma.sql`EXISTS (SELECT 1 FROM "Membership" WHERE "spaceId" = ${spaceId} AND "entityId" = ${senderId})`
  return insertionWhere(given, Prisma.sql`${condition} AND ${isMember}`)
}

/** The same with a `condition` that includes the sender's membership. Also takes a `turn`. */
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

/** A call begins to wait for a reply to the `message`: invalidates cached routing decisions for the space. */
export const ROOM_OF_WAIT = Prisma.sql`UPDATE "Space" SET version = version + 1 FROM message WHERE "Space".id = message."spaceId"`

/** Condition: the space still has this version. */
export const isVersion = (spaceId: string, version: number) =>
  Prisma.sql`EXISTS (SELECT 1 FROM "Space" WHERE id = ${spaceId} AND version = ${version})`

/** The agent whose turn it was in the space, and its join time in ms. */
export interface Turn {
  id: string
  joinedAt: number
}

const taken = ({ id, joinedAt }: Turn) =>
  Prisma.sql`, "lastPickedId" = ${id}, "lastPickedJoinedAt" = ${new Date(joinedAt)}`

/** The change of an unfinished message. */
export interface MessageChange {
  parts: MessagePart[]
  /** The current marks of its content. */
  marks: Marks
  /**
   * Absent: the message stays open. Each status finishes it; if `waits` is true it becomes
   * REQUIRES_ACTION instead, and is routed once it is answered, or at once if it mentions somebody
   * or asks for a reply.
   */
  end?: {
    status: 'COMPLETE' | 'REQUIRES_ACTION' | 'INTERRUPTED'
    mentionedAgentId?: string | null
    waits?: Prisma.Sql
    asks?: boolean
  }
}

/** Changes a message and returns its row, if it is STREAMING and `condition` holds. */
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
