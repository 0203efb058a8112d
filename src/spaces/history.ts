import { confidentialAmong, union } from '../confidentiality/marks.ts'
import { type EntityKind, type MessageStatus, Prisma } from '../generated/prisma/client.ts'
import { cutSaying, firstWithin } from '../lib/json.ts'
import type { Platform } from '../platform/platform.ts'
import { DELETED_TEXT } from '../rules/deleted-text.ts'
import { type FilePart, isUnfinished, type MessageOrigin, type MessagePart } from '../rules/message.ts'
import { readableCallsSql } from '../stores/call-store.ts'
import { type ReadableCall, readableText } from './readable-text.ts'

/** A message in the form in which agents read it. */
export interface HistoryLine {
  id: string
  sender: string
  senderId: string
  /** Whether a human or an agent sent the message. */
  type: 'human' | 'agent'
  text: string
  /** The time of the message in RFC 3339 format. */
  timestamp: string
  origin?: ReadableOrigin
  /**
   * The confidential spaces from which the text comes, without the message's own space. The agent does not see this
   * field.
   */
  label?: string[]
  /** For a reply, the id of the first message of its thread. Set only if messages of several threads are read. */
  thread?: string
  /** The files of the message. The agent does not see this field, because `text` describes the files. */
  files?: FilePart[]
}

/** Why a message was posted, without any data that the reader may not see. */
export type ReadableOrigin = {
  /** The type of the trigger as agents see it: `space_message`, `plan`, `service` or `inbox`. */
  triggerType: string
  triggerName?: string
  triggerSpaceId?: string
  triggerSpaceName?: string
  triggerSenderName?: string
  triggerMessage?: string
}

/** Selects the messages to read. The values are SQL. */
interface HistoryRange {
  spaceId: Prisma.Sql
  readerId: Prisma.Sql
  /** The `seq` of the last message to read; null for all messages. */
  upToSeq: Prisma.Sql
  /**
   * Limits the messages to those in one or several threads, or to those outside of threads. Absent for the whole space.
   */
  scope?: HistoryScope
  /** An additional condition on a message `m`. */
  condition?: Prisma.Sql
  /**
   * A condition on a message `m` whose whole text is needed. Other texts can be truncated to the length that a line
   * shows.
   */
  isWhole: Prisma.Sql
  offset?: number
  limit: number
  characters: number
}

/**
 * `outside`: messages that are not replies. `replies`: the replies of a thread. `root`: the first message of a thread.
 * `among`: the replies of several threads, optionally with the messages outside of threads.
 */
export type HistoryScope =
  | { type: 'outside' }
  | { type: 'replies' | 'root'; threadRootId: string }
  | { type: 'among'; threadRootIds: readonly string[]; withOutside: boolean }

/** Options for formatting rows as lines. */
interface Telling {
  offset?: number
  limit: number
  characters: number
  whole?: readonly (string | null)[]
  readOn?(back: number): string
}

/** The state of a space that an agent enters. */
export interface EnteredSpace {
  name: string
  lastSeq: number
  confidential: boolean
}

/** Reads messages for agents. The caller must check access. */
export interface History {
  /**
   * Returns `limit` messages up to `seq`, oldest first, after skipping the `offset` newest ones. Omits unfinished
   * messages. If the JSON would exceed `characters`, also omits the oldest messages. Truncates texts to 8,000
   * characters, except for messages in `whole`, or if only one message is requested.
   */
  read(input: {
    spaceId: string
    readerId: string
    upToSeq?: number | null
    scope?: HistoryScope
    /** Limits the messages to those that a run other than `butOfRun` began or finished after this time. */
    since?: { at: Date; butOfRun: string }
    offset?: number
    limit: number
    characters: number
    whole?: readonly (string | null)[]
    /**
     * Returns the text to append to a truncated text. It explains how to read the rest. `back` is the number of newer
     * messages.
     */
    readOn?(back: number): string
  }): Promise<HistoryLine[]>
  /** Returns SQL for a JSON array of rows, to use in a larger statement. `linesOf` formats the rows as `read` does. */
  rowsOf(range: HistoryRange): Prisma.Sql
  linesOf(rows: HistoryRow[], telling: Telling): HistoryLine[]
  /** Returns the space's name, last `seq` and confidentiality if the entity is a member; otherwise null. */
  enter(spaceId: string, entityId: string): Promise<EnteredSpace | null>
}

/** The maximum number of characters to quote from the message that caused an agent to post. */
const LONGEST_ORIGIN = 1000
/** The maximum number of characters of one message in a list of several. */
export const LONGEST_TEXT = 8_000
/**
 * The maximum number of characters of messages in a tool result. With this limit, the whole result stays below the
 * general limit of tool results.
 */
export const RESULT_CHARACTERS = 48_000

/** A message as read from the database. */
export interface HistoryRow {
  id: string
  seq: number
  threadRootId: string | null
  /** For a truncated text in a limited scope: the number of newer messages in the whole space, counted up to 10,001. */
  back: number | null
  senderId: string
  name: string
  kind: EntityKind
  status: MessageStatus
  parts: MessagePart[]
  /** The length of the whole text if `parts` contains only the text's beginning; otherwise null. */
  uncutLength: number | null
  deletedAt: Date | string | null
  origin: MessageOrigin | null
  /** The time as a string if the row was read from JSON. */
  createdAt: Date | string
  originVisible: boolean
  label: string[]
  calls: ReadableCall[] | null
}

/**
 * How many of the newest messages are measured first. Eight long messages fill a prompt, and measuring a message
 * requires reading its whole text.
 */
const FEW = 15

/** Characters that JavaScript counts as two and PostgreSQL as one. */
const ASTRAL = '[\\U00010000-\\U0010FFFF]'

/**
 * Selects the text of a message `m` that has one part. The subquery computes the text only once per row, because each
 * use of `m.parts` would decompress the column again.
 */
const FIRST_TEXT = Prisma.sql`SELECT m.parts->0->>'text' AS text OFFSET 0`

/** Selects the messages in the range, newest first, each with the minimum length of its line in characters. */
const sizesOf = (
  {
    spaceId,
    upToSeq,
    scope,
    condition = Prisma.sql`true`,
  }: Pick<HistoryRange, 'spaceId' | 'upToSeq' | 'scope' | 'condition'>,
  offset: number,
  limit: number,
) => Prisma.sql`
  SELECT m.id, m.seq, CASE WHEN octet_length(first.text) >= ${LONGEST_TEXT} AND length(first.text) >= ${LONGEST_TEXT} THEN ${LONGEST_TEXT}
    WHEN first.text IS NOT NULL AND jsonb_array_length(m.parts) = 1 THEN length(first.text)
    ELSE least(length(m.parts::text), ${LONGEST_TEXT}) END AS size
  FROM "Message" m CROSS JOIN LATERAL (${FIRST_TEXT}) first
  WHERE m."spaceId" = ${spaceId} AND ${isInScope(scope)} AND ${HAS_BEEN_SAID} AND m.seq <= coalesce(${upToSeq}, ${LAST_SEQ}::int) AND ${condition}
  ORDER BY m.seq DESC LIMIT ${limit} OFFSET ${offset}`

function isInScope(scope: HistoryScope | undefined): Prisma.Sql {
  if (scope === undefined) return Prisma.sql`true`
  if (scope.type === 'outside') return Prisma.sql`m."threadRootId" IS NULL`
  if (scope.type === 'among') {
    const isReply = Prisma.sql`m."threadRootId" = ANY(${[...scope.threadRootIds]}::text[])`
    return scope.withOutside ? Prisma.sql`(m."threadRootId" IS NULL OR ${isReply})` : isReply
  }
  return scope.type === 'replies'
    ? Prisma.sql`m."threadRootId" = ${scope.threadRootId}`
    : Prisma.sql`m.id = ${scope.threadRootId}`
}

/**
 * The rest of a truncated text can be read if there are at most this many newer messages, because counting them and
 * reading the rest scan the newer messages.
 */
const FARTHEST_BACK = 10_000

/**
 * Returns SQL for the number of messages in the whole space that are newer than a truncated message `m`. This number is
 * the `offset` with which `read` finds the message. Counting stops at FARTHEST_BACK + 1.
 */
const backOf = ({ upToSeq, scope }: Pick<HistoryRange, 'upToSeq' | 'scope'>) =>
  scope === undefined
    ? Prisma.sql`NULL::int`
    : Prisma.sql`CASE WHEN cut.length IS NOT NULL THEN (
        SELECT count(*)::int FROM (SELECT 1 FROM "Message" m WHERE m."spaceId" = shown."spaceId" AND m.seq > shown.seq
          AND m.seq <= coalesce(${upToSeq}, ${LAST_SEQ}::int) AND ${HAS_BEEN_SAID} LIMIT ${FARTHEST_BACK + 1}) newer) END`

export function createHistory({ db }: Platform): History {
  const select = ({ characters, offset = 0, limit, ...range }: HistoryRange) => Prisma.sql`
    WITH newest AS MATERIALIZED (${sizesOf(range, offset, Math.min(limit, FEW))}), asked AS (
      SELECT * FROM newest UNION ALL (${sizesOf(
        {
          ...range,
          condition: Prisma.sql`${range.condition ?? Prisma.sql`true`} AND coalesce((SELECT sum(size) FROM newest), 0) < ${characters}
            AND m.seq < (SELECT min(seq) FROM newest)`,
        },
        0,
        Math.max(limit - FEW, 0),
      )})
    ), shown AS (
      SELECT id, seq, ${range.spaceId} AS "spaceId", sum(size) OVER (ORDER BY seq DESC) - size AS before FROM asked
    )
    SELECT m.id, m.seq, m."threadRootId", ${backOf(range)} AS back, m."senderId", e.name, e.kind, m.status, m.origin, m."createdAt", m."deletedAt",
      CASE WHEN cut.length IS NULL THEN m.parts ELSE jsonb_build_array(jsonb_build_object('type', 'text', 'text', left(first.text, ${LONGEST_TEXT}))) END AS parts,
      cut.length AS "uncutLength",
      (m.origin IS NOT NULL AND EXISTS (SELECT 1 FROM "Membership" o WHERE o."entityId" = ${range.readerId}
        AND o."spaceId" = m.origin->>'triggerSpaceId')) AS "originVisible",
      ${confidentialAmong(Prisma.sql`m.places || m.label`)} AS label,
      CASE WHEN m.parts @? '$[*] ? (@.type == "tool")' THEN (${readableCallsSql(Prisma.sql`m.id`)}) END AS calls
    FROM shown JOIN "Message" m ON m.id = shown.id JOIN "Entity" e ON e.id = m."senderId"
      CROSS JOIN LATERAL (${FIRST_TEXT}) first CROSS JOIN LATERAL (
        SELECT CASE WHEN length(first.text) > ${LONGEST_TEXT} AND jsonb_array_length(m.parts) = 1 AND NOT (${range.isWhole}) AND first.text !~ ${ASTRAL}
          THEN length(first.text) END AS length OFFSET 0) cut
    WHERE shown.before < ${characters} ORDER BY m.seq DESC`

  return {
    async read({
      spaceId,
      readerId,
      upToSeq = null,
      scope,
      since,
      limit,
      offset = 0,
      characters,
      whole = [],
      ...telling
    }) {
      const rows = await db.query<HistoryRow>(
        select({
          spaceId: Prisma.sql`${spaceId}`,
          readerId: Prisma.sql`${readerId}`,
          upToSeq: Prisma.sql`${upToSeq}::int`,
          isWhole:
            limit === 1 ? Prisma.sql`true` : Prisma.sql`m.id = ANY(${whole.filter((id) => id !== null)}::text[])`,
          ...(scope === undefined ? {} : { scope }),
          ...(since === undefined ? {} : { condition: saidSince(since, upToSeq) }),
          limit,
          offset,
          characters,
        }),
      )
      return linesOf(rows, { ...telling, whole, limit, offset, characters })
    },
    rowsOf: (range) => Prisma.sql`
      SELECT coalesce(json_agg(line ORDER BY line.seq DESC), '[]') FROM (${select(range)}) line`,
    linesOf,
    async enter(spaceId, entityId) {
      const [space] = await db.query<EnteredSpace>(Prisma.sql`
        SELECT s.name, s."lastSeq", s.confidential FROM "Space" s JOIN "Membership" m ON m."spaceId" = s.id
        WHERE s.id = ${spaceId} AND m."entityId" = ${entityId}`)
      return space ?? null
    },
  }
}

/** The maximum of the column `seq`. */
const LAST_SEQ = 2 ** 31 - 1

/** Considers only the newest messages, because there is an index on `seq` and none on the times. */
const saidSince = ({ at, butOfRun }: { at: Date; butOfRun: string }, upToSeq: number | null) =>
  Prisma.sql`m.seq > ${(upToSeq ?? LAST_SEQ) - FARTHEST_BACK}::int AND greatest(m."createdAt", m."routedAt") > ${at} AND m."runId" IS DISTINCT FROM ${butOfRun}`

function linesOf(rows: HistoryRow[], { offset = 0, limit, characters, whole = [], readOn }: Telling): HistoryLine[] {
  const lines = rows.map((row, index) => {
    const line = lineOf(row)
    const length = row.uncutLength ?? line.text.length
    const isCut = !whole.includes(line.id) && limit > 1 && length > LONGEST_TEXT
    if (!isCut) return line
    const isTooFar = (row.back ?? 0) > FARTHEST_BACK
    const hint = isTooFar ? '' : (readOn?.(row.back ?? offset + index) ?? '')
    return { ...line, text: `${cutSaying(line.text, LONGEST_TEXT, length)}${hint}` }
  })
  return withinCharacters(lines, characters, whole).reverse()
}

/** Keeps the newest lines that fit, and at least one. The newest line must come first. */
function withinCharacters(lines: HistoryLine[], characters: number, whole: readonly (string | null)[]): HistoryLine[] {
  const fitting = firstWithin(lines, characters, (line) => (whole.includes(line.id) ? '' : JSON.stringify(line)))
  return fitting.length === 0 ? lines.slice(0, 1) : fitting
}

/** Condition: the message is finished, or it is an unfinished composite message, whose finished parts can be read. */
const HAS_BEEN_SAID = Prisma.sql`(m.status <> 'STREAMING' OR
  (m.composite AND m.parts @? '$[0] ? (!exists(@.unfinished))'))`

function lineOf(row: HistoryRow): HistoryLine {
  const parts = row.status === 'STREAMING' ? row.parts.filter((part) => !isUnfinished(part)) : row.parts
  const line: HistoryLine = {
    id: row.id,
    sender: row.name,
    senderId: row.senderId,
    type: row.kind === 'HUMAN' ? 'human' : 'agent',
    text: row.deletedAt === null ? readableText(parts, row.calls ?? []) : DELETED_TEXT,
    timestamp: new Date(row.createdAt).toISOString(),
  }
  if (row.threadRootId !== null) line.thread = row.threadRootId
  if (row.label.length > 0) line.label = row.label
  const files = parts.filter((part) => part.type === 'file')
  if (files.length > 0) line.files = files
  if (row.origin !== null) line.origin = readableOrigin(row.origin, row.originVisible)
  return line
}

/** Removes names and texts from the trigger's space unless the reader is a member of that space. */
function readableOrigin(origin: MessageOrigin, visible: boolean): ReadableOrigin {
  const { triggerType, triggerName, triggerSpaceId, triggerSpaceName, triggerSenderName, triggerMessage } = origin
  const about = triggerMessage === null ? null : cutSaying(triggerMessage, LONGEST_ORIGIN)
  const ofSpace = visible ? { triggerSpaceId, triggerSpaceName, triggerSenderName, triggerMessage: about } : {}
  const known = Object.entries({ triggerName, ...ofSpace }).filter(([, value]) => value !== null)
  return { triggerType: triggerType.toLowerCase(), ...Object.fromEntries(known) }
}

/** Returns the label that a run acquires by reading these lines. */
export function labelOf(lines: readonly HistoryLine[]): string[] {
  return union(...lines.map(({ label }) => label ?? []))
}

/** Returns the lines without the fields that a model must not see. */
export function readable(lines: readonly HistoryLine[]): Omit<HistoryLine, 'senderId' | 'label' | 'files'>[] {
  return lines.map(({ senderId: _, label: __, files: ___, ...line }) => line)
}
