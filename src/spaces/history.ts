import { type EntityKind, type MessageStatus, Prisma } from '../generated/prisma/client.ts'
import { cutSaying, firstWithin } from '../lib/json.ts'
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
  /**
   * The last `limit` messages up to `seq`, `offset` further back, oldest first, as far as `characters` of JSON reach: the newest
   * first. A text is cut after 8,000 characters, but that of the message `whole`, or where it is the only one that is asked for.
   * What is still being written is left out.
   */
  read(input: {
    spaceId: string
    readerId: string
    upToSeq?: number | null
    /** Only what was begun or became whole after this moment, by another run. */
    since?: { at: Date; butOfRun: string }
    offset?: number
    limit: number
    characters: number
    whole?: string | null
    /** Said after a text that is cut: how to read on. `back`: how many messages are newer. */
    readOn?(back: number): string
  }): Promise<HistoryLine[]>
  /** The space's name and last `seq`, if the entity is a member; else null. */
  enter(spaceId: string, entityId: string): Promise<{ name: string; lastSeq: number } | null>
}

/** Of the message that made an agent post another one, where that one is shown. */
const LONGEST_ORIGIN = 1000
/** Of one message, where it is one of several. */
export const LONGEST_TEXT = 8_000
/** Of a tool's result that shows messages: with what stands around them no more than a model is shown of any result. */
export const RESULT_CHARACTERS = 48_000

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
    async read({ spaceId, readerId, upToSeq, since, offset = 0, limit, characters, whole = null, readOn }) {
      const until = upToSeq == null ? Prisma.empty : Prisma.sql`AND m.seq <= ${upToSeq}`
      const after =
        since === undefined
          ? Prisma.empty
          : Prisma.sql`AND greatest(m."createdAt", m."routedAt") > ${since.at} AND m."runId" IS DISTINCT FROM ${since.butOfRun}`
      const rows = await db.prisma.$queryRaw<Row[]>`
        WITH asked AS (
          SELECT m.id, m.seq, least(length(m.parts::text), ${LONGEST_TEXT}) AS size FROM "Message" m
          WHERE m."spaceId" = ${spaceId} AND ${HAS_BEEN_SAID} ${until} ${after} ORDER BY m.seq DESC LIMIT ${limit} OFFSET ${offset}
        ), shown AS (
          SELECT id, sum(size) OVER (ORDER BY seq DESC) - size AS before FROM asked
        )
        SELECT m.id, m."senderId", e.name, e.kind, m.status, m.parts, m.origin, m."createdAt",
          (m.origin IS NOT NULL AND EXISTS (SELECT 1 FROM "Membership" o WHERE o."entityId" = ${readerId}
            AND o."spaceId" = m.origin->>'triggerSpaceId')) AS "originVisible",
          CASE WHEN m.parts @? '$[*] ? (@.type == "tool")' THEN (${shownCalls(Prisma.sql`m.id`)}) END AS calls
        FROM shown JOIN "Message" m ON m.id = shown.id JOIN "Entity" e ON e.id = m."senderId"
        WHERE shown.before < ${characters} ORDER BY m.seq DESC`
      const lines = rows.map((row, index) => {
        const line = lineOf(row)
        const isCut = line.id !== whole && limit > 1 && line.text.length > LONGEST_TEXT
        if (!isCut) return line
        return { ...line, text: `${cutSaying(line.text, LONGEST_TEXT)}${readOn?.(offset + index) ?? ''}` }
      })
      return withinCharacters(lines, characters, whole).reverse()
    },
    async enter(spaceId, entityId) {
      const [space] = await db.prisma.$queryRaw<{ name: string; lastSeq: number }[]>`
        SELECT s.name, s."lastSeq" FROM "Space" s JOIN "Membership" m ON m."spaceId" = s.id
        WHERE s.id = ${spaceId} AND m."entityId" = ${entityId}`
      return space ?? null
    },
  }
}

/** Newest first, as given. At least one. */
function withinCharacters(lines: HistoryLine[], characters: number, whole: string | null): HistoryLine[] {
  const fitting = firstWithin(lines, characters, (line) => (line.id === whole ? '' : JSON.stringify(line)))
  return fitting.length === 0 ? lines.slice(0, 1) : fitting
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
  const about = triggerMessage === null ? null : cutSaying(triggerMessage, LONGEST_ORIGIN)
  const ofSpace = visible ? { triggerSpaceId, triggerSpaceName, triggerSenderName, triggerMessage: about } : {}
  const known = Object.entries({ triggerName, ...ofSpace }).filter(([, value]) => value !== null)
  return { triggerType: triggerType.toLowerCase(), ...Object.fromEntries(known) }
}
