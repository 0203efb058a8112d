import { type EntityKind, type MessageStatus, Prisma } from '../generated/prisma/client.ts'
import type { Platform } from '../platform/platform.ts'
import { isUnfinished, type MessageOrigin, type MessagePart } from './message.ts'
import { type ReadableCall, readableText } from './readable-text.ts'

/** A message as an agent reads it. */
export interface HistoryLine {
  id: string
  sender: string
  senderId: string
  /** The sender's kind. */
  type: 'human' | 'agent'
  text: string
  /** RFC 3339. */
  timestamp: string
  origin?: ReadableOrigin
}

/** Why a message was posted, as far as the reader may know and there is something to know. */
export type ReadableOrigin = {
  /** As agents name them: `space_message`, `plan`, `service`, `inbox`. */
  triggerType: string
  triggerName?: string
  triggerSpaceId?: string
  triggerSpaceName?: string
  triggerSenderName?: string
  triggerMessage?: string
}

/** What agents read of a space. Whether they may is the caller's to check. */
export interface History {
  /** The last `limit` messages up to `seq`, `offset` further back, oldest first; what is still being written is left out. */
  read(input: {
    spaceId: string
    readerId: string
    upToSeq?: number | null
    offset?: number
    limit: number
  }): Promise<HistoryLine[]>
  /** The space's name and last `seq`, if the entity is a member; else null. */
  enter(spaceId: string, entityId: string): Promise<{ name: string; lastSeq: number } | null>
}

interface Row {
  id: string
  senderId: string
  name: string
  kind: EntityKind
  status: MessageStatus
  parts: MessagePart[]
  origin: MessageOrigin | null
  createdAt: Date
  originVisible: boolean
  calls: ReadableCall[] | null
}

export interface HistoryHooks {
  /** A subquery: the calls that the message of this id shows, as a JSON array of ReadableCall. */
  shownCalls(messageId: Prisma.Sql): Prisma.Sql
}

export function createHistory({ db }: Platform, { shownCalls }: HistoryHooks): History {
  return {
    async read({ spaceId, readerId, upToSeq, offset = 0, limit }) {
      const until = upToSeq == null ? Prisma.empty : Prisma.sql`AND m.seq <= ${upToSeq}`
      const rows = await db.prisma.$queryRaw<Row[]>`
        SELECT m.id, m."senderId", e.name, e.kind, m.status, m.parts, m.origin, m."createdAt",
          (m.origin IS NOT NULL AND EXISTS (SELECT 1 FROM "Membership" o WHERE o."entityId" = ${readerId}
            AND o."spaceId" = m.origin->>'triggerSpaceId')) AS "originVisible",
          CASE WHEN m.parts @? '$[*] ? (@.type == "tool")' THEN (${shownCalls(Prisma.sql`m.id`)}) END AS calls
        FROM "Message" m JOIN "Entity" e ON e.id = m."senderId"
        WHERE m."spaceId" = ${spaceId} AND ${HAS_BEEN_SAID} ${until}
        ORDER BY m.seq DESC LIMIT ${limit} OFFSET ${offset}`
      return rows.reverse().map(lineOf)
    },
    async enter(spaceId, entityId) {
      const [space] = await db.prisma.$queryRaw<{ name: string; lastSeq: number }[]>`
        SELECT s.name, s."lastSeq" FROM "Space" s JOIN "Membership" m ON m."spaceId" = s.id
        WHERE s.id = ${spaceId} AND m."entityId" = ${entityId}`
      return space ?? null
    },
  }
}

/** Of a message that its run goes on with, the parts that are whole have been said. */
const HAS_BEEN_SAID = Prisma.sql`(m.status <> 'STREAMING' OR
  (m.composite AND m.parts @? '$[0] ? (!exists(@.unfinished))'))`

function lineOf(row: Row): HistoryLine {
  const parts = row.status === 'STREAMING' ? row.parts.filter((part) => !isUnfinished(part)) : row.parts
  const line: HistoryLine = {
    id: row.id,
    sender: row.name,
    senderId: row.senderId,
    type: row.kind === 'HUMAN' ? 'human' : 'agent',
    text: readableText(parts, row.calls ?? []),
    timestamp: row.createdAt.toISOString(),
  }
  if (row.origin !== null) line.origin = readableOrigin(row.origin, row.originVisible)
  return line
}

/** Names and texts of a trigger's space are for its members. */
function readableOrigin(origin: MessageOrigin, visible: boolean): ReadableOrigin {
  const { triggerType, triggerName, triggerSpaceId, triggerSpaceName, triggerSenderName, triggerMessage } = origin
  const ofSpace = visible ? { triggerSpaceId, triggerSpaceName, triggerSenderName, triggerMessage } : {}
  const known = Object.entries({ triggerName, ...ofSpace }).filter(([, value]) => value !== null)
  return { triggerType: triggerType.toLowerCase(), ...Object.fromEntries(known) }
}
