import type { Viewer } from '../access/viewer.ts'
import type { Draft } from '../broker/log.ts'
import { spaceTopic } from '../broker/topics.ts'
import { confidentialAmong } from '../confidentiality/marks.ts'
import { type OutcomeKind, Prisma, type Message as Row, type Space } from '../generated/prisma/client.ts'
import { type BadInputError, ForbiddenError, messageOf, NotFoundError } from '../lib/errors.ts'
import { prefixOf, wellFormedIds } from '../lib/ids.ts'
import { inOrderOf } from '../lib/in-order.ts'
import { foreignCursor, type Page, type PageRequest } from '../lib/page.ts'
import { isOneOf } from '../platform/one-of.ts'
import type { Platform } from '../platform/platform.ts'
import { type Message, type MessagePart, messageOfRow } from '../rules/message.ts'
import { moveReadMarker } from '../stores/membership-store.ts'
import { NO_SUCH_SPACE } from '../stores/space-store.ts'
import { moveThreadMark } from '../stores/thread-store.ts'
import type { SpacePublisher } from './space-publisher.ts'

export interface MarkReadInput {
  spaceId: string
  messageId: string
}

export interface HumanInSpace {
  humanId: string
  spaceId: string
}

/** The outcome of a message for an agent. */
export interface ReadOutcome {
  messageId: string
  agentId: string
  kind: OutcomeKind
  reason: string | null
  error: string | null
  runId: string | null
  /** When the agent's run or think cycle that read this message began. The field below is when it ended. */
  readingSince: Date | null
  readAt: Date | null
  /** For SKIPPED: the confidential spaces from which the reason comes, if recorded. */
  label: string[]
  isLabelKnown: boolean
  /** For SKIPPED without a reason: the first line of the final text of the run. */
  closing: string | null
}

/** A thread, identified by its first message. */
export interface Thread {
  threadRootId: string
  spaceId: string
  /** The number of replies, counted up to 10,000. */
  replyCount: number
  lastReplyAt: Date
}

export interface HumanInThread {
  humanId: string
  threadRootId: string
}

/** A request for a page of messages; with `rootsOnly`, only of messages that are not replies. */
export type MessagesRequest = PageRequest & { rootsOnly?: boolean }

/**
 * The number of messages by others after a human's read marker, counted up to 10,000. Includes unread replies in
 * threads in which the human takes part or is mentioned, but only in the 1,000 threads that began last, and only the
 * newest 1,000 replies of each.
 */
export interface Unread {
  messages: number
  /** The number of unread messages that mention the human. */
  mentions: number
}

/** Reads messages and read markers. A lookup for many spaces takes one statement. The caller must check access. */
export interface Reading {
  /** Returns messages in the order of the ids; null for an unknown id. */
  getMany(ids: readonly string[]): Promise<(Message | null)[]>
  /**
   * Returns a page of each space's messages by `seq`, in the order of the ids. If `after` or `before` is not a
   * message of a space, returns a BadInputError instead of that space's page.
   */
  pageMany(spaceIds: readonly string[], request: MessagesRequest): Promise<(Page<Message> | BadInputError)[]>
  /**
   * Returns the threads that these messages start, by message id. The map has no entry for a message without
   * replies.
   */
  threadsMany(messageIds: readonly string[]): Promise<Map<string, Thread>>
  /** Returns a page of each thread's replies by `seq`, in the order of the ids. Errors as for `pageMany`. */
  repliesMany(threadRootIds: readonly string[], request: PageRequest): Promise<(Page<Message> | BadInputError)[]>
  /**
   * Returns, by human and thread, how many of the newest 1,000 replies are by others and after the human's read
   * marker of the thread.
   */
  unreadInThreads(asked: readonly HumanInThread[]): Promise<Map<string, Map<string, number>>>
  /**
   * Returns, by human and space, the threads whose replies `unreadOfMany` counts, at most 20, the thread with the
   * newest reply first.
   */
  unreadThreadsOfMany(asked: readonly HumanInSpace[]): Promise<Map<string, Map<string, string[]>>>
  /** Returns the last message of each space. The map has no entry for a space without messages. */
  lastMany(spaceIds: readonly string[]): Promise<Map<string, Message>>
  /**
   * Returns, by space, the first message outside of threads that is by somebody else and after the human's read
   * marker.
   */
  firstUnreadMany(humanId: string, spaceIds: readonly string[]): Promise<Map<string, Message>>
  /** Returns the first unread messages by human and space. The map has no entry for a space without unread messages. */
  firstUnreadOfMany(asked: readonly HumanInSpace[]): Promise<Map<string, Map<string, Message>>>
  unreadOfMany(asked: readonly HumanInSpace[]): Promise<Map<string, Map<string, Unread>>>
  /** Counts the unread messages in all spaces of the human. */
  unreadTotal(humanId: string): Promise<Unread>
  /**
   * Moves a human's read marker forward to a message, never back. For a reply, moves only the human's read marker of
   * its thread. Publishes `read` if the marker moved.
   * @throws ForbiddenError for an admin token, which has no read marker; NotFoundError for a space of which the
   * viewer is not a member, or for a message of another space
   */
  markRead(viewer: Viewer, input: MarkReadInput): Promise<Space>
  /** Returns the outcomes of each message by agent. The map has no entry for a message without outcomes. */
  outcomesMany(messageIds: readonly string[]): Promise<Map<string, ReadOutcome[]>>
  /**
   * Adds the streamed text to STREAMING messages; if the event log is unavailable, returns them with the stored
   * text. Read the head of the log before the messages: then they contain everything up to that position.
   */
  withDraftText(messages: readonly Message[]): Promise<Message[]>
}

/**
 * Counting stops at this number: a badge does not show larger numbers exactly, and the cost of counting would grow
 * with the number of unread messages.
 */
const MOST_COUNTED = 10_000

/** The columns of an Unread. */
const COUNTS = Prisma.sql`count(*)::int AS messages, count(*) FILTER (WHERE mentions)::int AS mentions`
/** Whether a message `m` mentions the human of the membership `marker`. */
const MENTIONS_READER = Prisma.sql`m."mentionedIds" @> ARRAY[marker."entityId"] AS mentions`
/** The unread messages outside of threads of the membership `marker`. */
const UNREAD_OUTSIDE = Prisma.sql`
  SELECT ${MENTIONS_READER} FROM "Message" m
  WHERE m."spaceId" = marker."spaceId" AND m.seq > marker."lastReadSeq" AND m."senderId" <> marker."entityId" AND m."threadRootId" IS NULL`
/** The maximum number of threads of a human in a space whose replies are counted: the threads that began last. */
const MOST_THREADS = 1000
/** The maximum number of replies of a thread that are counted as unread: the newest ones. */
const MOST_OF_THREAD = 1000
/**
 * Selects the unread replies that count for the membership `marker`. The limits apply to the rows that are read, not
 * to the rows that count, because a human may have taken part in any number of threads, and a thread may continue
 * for years without the human.
 */
const unreadReplies = (columns: Prisma.Sql) => Prisma.sql`
  SELECT ${columns} FROM (
    SELECT m.*, t."threadRootId", t."takesPart" FROM (
      SELECT * FROM "ThreadReader" WHERE "humanId" = marker."entityId" AND "spaceId" = marker."spaceId"
      ORDER BY "threadRootId" DESC LIMIT ${MOST_THREADS}) t
    CROSS JOIN LATERAL (
      SELECT r."spaceId", r."senderId", r."createdAt", r."mentionedIds" FROM "Message" r
      WHERE r."threadRootId" = t."threadRootId" AND r.seq > t."lastReadSeq" ORDER BY r.seq DESC LIMIT ${MOST_OF_THREAD}) m
    LIMIT ${MOST_COUNTED}) m
  WHERE m."spaceId" = marker."spaceId" AND m."senderId" <> marker."entityId" AND m."createdAt" >= marker."joinedAt"
    AND (m."takesPart" OR m."mentionedIds" @> ARRAY[marker."entityId"])`
const UNREAD_OF_MARKER = Prisma.sql`(${UNREAD_OUTSIDE}) UNION ALL (${unreadReplies(MENTIONS_READER)})`
const MOST_UNREAD_THREADS = 20

export function createReading(platform: Platform, publisher: SpacePublisher): Reading {
  const { db, log, logger } = platform
  const markersOf = (asked: readonly HumanInSpace[]) => Prisma.sql`
    "Membership" marker JOIN unnest(${asked.map(({ humanId }) => humanId)}::text[], ${asked.map(({ spaceId }) => spaceId)}::text[])
      AS asked("entityId", "spaceId") USING ("entityId", "spaceId")`

  const firstUnreadOfMany: Reading['firstUnreadOfMany'] = async (asked) => {
    const rows = await db.prisma.$queryRaw<(Row & { reader: string })[]>`
      SELECT "entityId" AS reader, first.* FROM ${markersOf(asked)}, LATERAL (
        SELECT * FROM "Message" m
        WHERE m."spaceId" = marker."spaceId" AND m.seq > marker."lastReadSeq" AND m."senderId" <> marker."entityId"
          AND m."threadRootId" IS NULL
        ORDER BY m.seq LIMIT 1) first`
    return byReader(rows.map(({ reader, ...row }) => ({ reader, spaceId: row.spaceId, value: messageOfRow(row) })))
  }

  const unreadOfMany: Reading['unreadOfMany'] = async (asked) => {
    const rows = await db.prisma.$queryRaw<(Unread & { reader: string; spaceId: string })[]>`
      SELECT "entityId" AS reader, "spaceId", unread.* FROM ${markersOf(asked)}, LATERAL (
        SELECT ${COUNTS} FROM (${UNREAD_OF_MARKER} LIMIT ${MOST_COUNTED}) counted) unread
      WHERE unread.messages > 0`
    return byReader(rows.map(({ reader, spaceId, ...value }) => ({ reader, spaceId, value })))
  }

  async function draftsOf(messages: readonly Message[]): Promise<Map<string, Draft>> {
    const bySpace = [...Map.groupBy(messages, ({ spaceId }) => spaceId)]
    const found = bySpace.map(([spaceId, own]) => log.drafts(spaceTopic(spaceId), idsOf(own)))
    return new Map((await Promise.all(found)).flatMap((drafts) => [...drafts]))
  }

  return {
    async getMany(ids) {
      const rows = await db.query<Row>(
        Prisma.sql`SELECT * FROM "Message" WHERE ${isOneOf(Prisma.sql`id`, wellFormedIds(ids))}`,
      )
      return inOrderOf(ids, rows.map(messageOfRow))
    },
    async pageMany(spaceIds, request) {
      if (request.rootsOnly === true) {
        const rows = await fetchRoots(platform, spaceIds, request)
        const bySpace = Map.groupBy(rows, ({ windowId }) => windowId)
        return spaceIds.map((id) => pageOfRows(request, bySpace.get(id) ?? []))
      }
      const rows = await fetchWindows(platform, spaceIds, request)
      const bySpace = Map.groupBy(rows, ({ windowSpaceId }) => windowSpaceId)
      return spaceIds.map((id) => pageOfWindow(request, bySpace.get(id) ?? []))
    },
    async threadsMany(messageIds) {
      const rows = await db.query<Thread>(Prisma.sql`
        SELECT root.id AS "threadRootId", last."spaceId", last."createdAt" AS "lastReplyAt", counted.count AS "replyCount"
        FROM unnest(${wellFormedIds(messageIds)}::text[]) AS root(id)
        CROSS JOIN LATERAL (SELECT m."spaceId", m."createdAt" FROM "Message" m
          WHERE m."threadRootId" = root.id ORDER BY m.seq DESC LIMIT 1) last
        CROSS JOIN LATERAL (SELECT count(*)::int AS count FROM (SELECT 1 FROM "Message" m
          WHERE m."threadRootId" = root.id LIMIT ${MOST_COUNTED}) reply) counted`)
      return new Map(rows.map((row) => [row.threadRootId, row]))
    },
    async repliesMany(threadRootIds, request) {
      const rows = await fetchReplies(platform, threadRootIds, request)
      const byThread = Map.groupBy(rows, ({ windowId }) => windowId)
      return threadRootIds.map((id) => pageOfRows(request, byThread.get(id) ?? []))
    },
    async unreadInThreads(asked) {
      const rows = await db.query<{ humanId: string; threadRootId: string; count: number }>(Prisma.sql`
        SELECT asked."humanId", asked."threadRootId", unread.count FROM unnest(
          ${asked.map(({ humanId }) => humanId)}::text[], ${asked.map(({ threadRootId }) => threadRootId)}::text[])
          AS asked("humanId", "threadRootId")
        LEFT JOIN "ThreadReader" t USING ("humanId", "threadRootId"), LATERAL (
          SELECT count(*)::int AS count FROM (
            SELECT m."spaceId", m."senderId", m."createdAt" FROM "Message" m
            WHERE m."threadRootId" = asked."threadRootId" AND m.seq > coalesce(t."lastReadSeq", 0)
            ORDER BY m.seq DESC LIMIT ${MOST_OF_THREAD}) m
          JOIN "Membership" marker ON marker."spaceId" = m."spaceId" AND marker."entityId" = asked."humanId"
          WHERE m."senderId" <> asked."humanId" AND m."createdAt" >= marker."joinedAt") unread`)
      const readers = Map.groupBy(rows, ({ humanId }) => humanId)
      return new Map(
        [...readers].map(([id, own]) => [id, new Map(own.map(({ threadRootId, count }) => [threadRootId, count]))]),
      )
    },
    async unreadThreadsOfMany(asked) {
      const rows = await db.query<{ reader: string; spaceId: string; value: string[] }>(Prisma.sql`
        SELECT "entityId" AS reader, "spaceId", array_agg(unread."threadRootId" ORDER BY unread."lastAt" DESC) AS value
        FROM ${markersOf(asked)}, LATERAL (
          SELECT "threadRootId", max("createdAt") AS "lastAt" FROM (${unreadReplies(Prisma.sql`m."threadRootId", m."createdAt"`)}) reply
          GROUP BY "threadRootId" ORDER BY max("createdAt") DESC LIMIT ${MOST_UNREAD_THREADS}) unread
        GROUP BY 1, 2`)
      return byReader(rows)
    },
    async lastMany(spaceIds) {
      const rows = await db.prisma.$queryRaw<Row[]>`
        SELECT m.* FROM "Space" s JOIN "Message" m ON m."spaceId" = s.id AND m.seq = s."lastSeq"
        WHERE s.id = ANY(${[...spaceIds]}::text[])`
      return new Map(rows.map((row) => [row.spaceId, messageOfRow(row)]))
    },
    async firstUnreadMany(humanId, spaceIds) {
      const found = await firstUnreadOfMany(spaceIds.map((spaceId) => ({ humanId, spaceId })))
      return found.get(humanId) ?? new Map()
    },
    unreadOfMany,
    firstUnreadOfMany,
    async unreadTotal(humanId) {
      const [row] = await db.prisma.$queryRaw<Unread[]>`
        SELECT ${COUNTS} FROM (
          SELECT unread.mentions FROM "Membership" marker, LATERAL (${UNREAD_OF_MARKER}) unread
          WHERE marker."entityId" = ${humanId} LIMIT ${MOST_COUNTED}) counted`
      return row ?? { messages: 0, mentions: 0 }
    },
    async markRead(viewer, input) {
      const { space, moved } = await moveMarker(platform, viewer, input)
      if (moved) await publisher.read(input.spaceId, viewer.id)
      return space
    },
    async outcomesMany(messageIds) {
      const rows = await db.prisma.$queryRaw<ReadOutcome[]>`
        SELECT o."messageId", o."agentId", o.kind::text AS kind, o.reason, o.error, o."runId",
          coalesce(o."readingSince", r."startedAt") AS "readingSince", coalesce(o."readAt", r."finishedAt") AS "readAt",
          CASE WHEN o.kind = 'SKIPPED' THEN ${confidentialAmong(Prisma.sql`o.label || coalesce(r.places || r.label, '{}')`)} ELSE '{}' END AS label,
          r.id IS NOT NULL OR o."readAt" IS NOT NULL AS "isLabelKnown",
          CASE WHEN o.kind = 'SKIPPED' AND o.reason IS NULL THEN split_part(r.summary, chr(10), 1) END AS closing
        FROM "Outcome" o LEFT JOIN "Run" r ON r.id = o."runId"
        WHERE o."messageId" = ANY(${[...messageIds]}::text[]) ORDER BY o."messageId", o."agentId"`
      return Map.groupBy(rows, ({ messageId }) => messageId)
    },
    async withDraftText(messages) {
      const streaming = messages.filter(({ status }) => status === 'STREAMING')
      if (streaming.length === 0) return [...messages]
      try {
        const drafts = await draftsOf(streaming)
        return messages.map((message) => withDraft(message, drafts.get(message.id)))
      } catch (error) {
        logger.warn({ error: messageOf(error) }, 'could not read the text of streaming messages')
        return [...messages]
      }
    },
  }
}

const idsOf = (messages: readonly Message[]) => messages.map(({ id }) => id)

/** A row of a page that `fetchWindows` reads: a message, or a space whose page is empty. */
type WindowRow = Partial<Row> & {
  windowSpaceId: string
  /** The `seq` of the first message that retention has not deleted. */
  firstSeq: number
  lastSeq: number
  afterSeq: number | null
  beforeSeq: number | null
}

/**
 * Reads pages of messages. The row of a space contains its first and last `seq`, which show whether messages precede
 * or follow a page. The cursor of a message that retention has deleted counts as a position before the first
 * remaining message, because ids are ordered by time.
 */
async function fetchWindows({ db }: Platform, spaceIds: readonly string[], request: PageRequest): Promise<WindowRow[]> {
  const { after, before, size, fromEnd } = request
  const ids = [...spaceIds]
  if (ids.length === 0) return []
  const direction = fromEnd ? Prisma.sql`DESC` : Prisma.sql`ASC`
  const rowsSql = Prisma.sql`
    SELECT * FROM "Message" m
    WHERE m."spaceId" = s.id AND m.seq > coalesce(a.seq, 0) AND m.seq < coalesce(b.seq, ${END})
    ORDER BY m.seq ${direction} LIMIT ${size + 1}`
  return db.prisma.$queryRaw<WindowRow[]>`
    SELECT s.id AS "windowSpaceId", s."firstSeq", s."lastSeq", a.seq AS "afterSeq", b.seq AS "beforeSeq", m.*
    FROM "Space" s
    LEFT JOIN LATERAL (${placeOf(after)}) a ON true
    LEFT JOIN LATERAL (${placeOf(before)}) b ON true
    LEFT JOIN LATERAL (${ids.length === 1 ? rowsSql : withinBytesSql(rowsSql, MOST_LOADED_BYTES / ids.length)}) m ON true
    WHERE s.id = ANY(${ids}::text[])
    ORDER BY m.seq ${direction}`
}

/**
 * The maximum number of bytes of messages that are loaded for the pages of several spaces together. Above this
 * limit, each page gets fewer messages.
 */
const MOST_LOADED_BYTES = 16 * 1024 * 1024

/** Selects rows in the order of `rowsSql` until their parts exceed `bytes`, and at least the first row. */
const withinBytesSql = (rowsSql: Prisma.Sql, bytes: number) => Prisma.sql`
  SELECT * FROM (
    SELECT m.*, sum(octet_length(m.parts::text)) OVER (ROWS UNBOUNDED PRECEDING) - octet_length(m.parts::text) AS "bytesBefore"
    FROM (${rowsSql}) m) counted
  WHERE "bytesBefore" < ${Math.floor(bytes)}`

/** Selects the `seq` of a cursor in the space `s`. Returns no row if the cursor cannot be a message of that space. */
const placeOf = (cursor: string | null) => Prisma.sql`
  SELECT seq FROM "Message" WHERE id = ${cursor} AND "spaceId" = s.id
  UNION ALL
  SELECT s."firstSeq" - 1 WHERE s."firstSeq" > 1 AND ${cursor}::text IS NOT NULL
    AND NOT EXISTS (SELECT 1 FROM "Message" WHERE id = ${cursor})
    AND ${cursor}::text < coalesce((SELECT id FROM "Message" WHERE "spaceId" = s.id ORDER BY seq LIMIT 1), 'n')`

/** The maximum of the column `seq`. */
const END = 2_147_483_647

function pageOfWindow({ size, fromEnd, after, before }: PageRequest, rows: WindowRow[]): Page<Message> | BadInputError {
  const [window] = rows
  if (window === undefined) return { items: [], hasNextPage: false, hasPreviousPage: false }
  if (after !== null && window.afterSeq === null) return foreignCursor('after')
  if (before !== null && window.beforeSeq === null) return foreignCursor('before')
  const messages = rows.flatMap((row) => (row.id == null ? [] : [messageOfRow(row as Row & WindowRow)])).slice(0, size)
  const items = fromEnd ? messages.reverse() : messages
  const firstSeq = items[0]?.seq ?? (window.afterSeq ?? window.firstSeq - 1) + 1
  const lastSeq = items.at(-1)?.seq ?? (window.beforeSeq ?? window.lastSeq + 1) - 1
  return { items, fromEnd, hasPreviousPage: firstSeq > window.firstSeq, hasNextPage: lastSeq < window.lastSeq }
}

/** A row of a page whose messages are not consecutive in the space: a message, or a parent whose page is empty. */
type FilteredRow = Partial<Row> & {
  windowId: string
  afterSeq: number | null
  beforeSeq: number | null
  hasBefore: boolean
  hasAfter: boolean
  /**
   * The number of messages found, up to one more than a page has. Some of them may be left out because of their
   * size.
   */
  rowsFound: number | null
}

/** Reads pages of the messages outside of threads. */
function fetchRoots(platform: Platform, spaceIds: readonly string[], request: PageRequest): Promise<FilteredRow[]> {
  const parents = Prisma.sql`SELECT s.id AS "windowId", s.* FROM "Space" s WHERE s.id = ANY(${[...spaceIds]}::text[])`
  const isOfWindow = Prisma.sql`m."spaceId" = s."windowId" AND m."threadRootId" IS NULL`
  return fetchFiltered(platform, { parents, isOfWindow, count: spaceIds.length }, request)
}

/** Reads pages of the replies of threads. Retention may have deleted the first message of a thread. */
function fetchReplies(platform: Platform, rootIds: readonly string[], request: PageRequest): Promise<FilteredRow[]> {
  const parents = Prisma.sql`
    SELECT root.id AS "windowId", s.* FROM unnest(${[...rootIds]}::text[]) AS root(id)
    CROSS JOIN LATERAL (SELECT m."spaceId" FROM "Message" m WHERE m."threadRootId" = root.id ORDER BY m.seq DESC LIMIT 1) reply
    JOIN "Space" s ON s.id = reply."spaceId"`
  const isOfWindow = Prisma.sql`m."threadRootId" = s."windowId" AND m."spaceId" = s.id`
  return fetchFiltered(platform, { parents, isOfWindow, count: rootIds.length }, request)
}

/**
 * Does the same as `fetchWindows` for messages that are not consecutive, with a lookup of messages before and after
 * the page. `parents` has the columns of a space `s`.
 */
async function fetchFiltered(
  { db }: Platform,
  { parents, isOfWindow, count }: { parents: Prisma.Sql; isOfWindow: Prisma.Sql; count: number },
  { after, before, size, fromEnd }: PageRequest,
): Promise<FilteredRow[]> {
  if (count === 0) return []
  const direction = fromEnd ? Prisma.sql`DESC` : Prisma.sql`ASC`
  const rowsSql = Prisma.sql`
    SELECT m.*, count(*) OVER ()::int AS "rowsFound" FROM (
      SELECT * FROM "Message" m
      WHERE ${isOfWindow} AND m.seq > coalesce(a.seq, 0) AND m.seq < coalesce(b.seq, ${END})
      ORDER BY m.seq ${direction} LIMIT ${size + 1}) m ORDER BY m.seq ${direction}`
  return db.prisma.$queryRaw<FilteredRow[]>`
    SELECT s."windowId", a.seq AS "afterSeq", b.seq AS "beforeSeq",
      a.seq IS NOT NULL AND EXISTS (SELECT 1 FROM "Message" m WHERE ${isOfWindow} AND m.seq <= a.seq) AS "hasBefore",
      b.seq IS NOT NULL AND EXISTS (SELECT 1 FROM "Message" m WHERE ${isOfWindow} AND m.seq >= b.seq) AS "hasAfter", m.*
    FROM (${parents}) s
    LEFT JOIN LATERAL (${placeOf(after)}) a ON true
    LEFT JOIN LATERAL (${placeOf(before)}) b ON true
    LEFT JOIN LATERAL (${count === 1 ? rowsSql : withinBytesSql(rowsSql, MOST_LOADED_BYTES / count)}) m ON true
    ORDER BY m.seq ${direction}`
}

function pageOfRows({ size, fromEnd, after, before }: PageRequest, rows: FilteredRow[]): Page<Message> | BadInputError {
  const [window] = rows
  if (window === undefined) return { items: [], hasNextPage: false, hasPreviousPage: false }
  if (after !== null && window.afterSeq === null) return foreignCursor('after')
  if (before !== null && window.beforeSeq === null) return foreignCursor('before')
  const messages = rows
    .flatMap((row) => (row.id == null ? [] : [messageOfRow(row as Row & FilteredRow)]))
    .slice(0, size)
  const goesOn = (window.rowsFound ?? 0) > messages.length
  const items = fromEnd ? messages.reverse() : messages
  return {
    items,
    fromEnd,
    hasPreviousPage: fromEnd ? goesOn || window.hasBefore : window.hasBefore,
    hasNextPage: fromEnd ? window.hasAfter : goesOn || window.hasAfter,
  }
}

const NO_SUCH_MESSAGE = 'There is no such message in this space.'

async function moveMarker({ db }: Platform, viewer: Viewer, { spaceId, messageId }: MarkReadInput) {
  if (viewer.scope === 'ADMIN') throw new ForbiddenError('An admin token has no read marker: use the token of a human.')
  if (prefixOf(spaceId) === null) throw new NotFoundError(NO_SUCH_SPACE)
  if (prefixOf(messageId) === null) throw new NotFoundError(NO_SUCH_MESSAGE)
  const [space, message] = await Promise.all([
    db.prisma.space.findFirst({ where: { id: spaceId, memberships: { some: { entityId: viewer.id } } } }),
    db.prisma.message.findFirst({ where: { id: messageId, spaceId }, select: { seq: true, threadRootId: true } }),
  ])
  if (space === null) throw new NotFoundError(NO_SUCH_SPACE)
  if (message === null) throw new NotFoundError(NO_SUCH_MESSAGE)
  const { seq, threadRootId } = message
  const moved =
    threadRootId === null
      ? await moveReadMarker(db.prisma, { spaceId, entityId: viewer.id }, seq)
      : await moveThreadMark(db.prisma, { threadRootId, spaceId, humanId: viewer.id }, seq)
  return { space, moved }
}

/** Inserts the streamed parts of a message at their indexes, if its row does not contain them yet. */
function withDraft(message: Message, draft: ReadonlyMap<number, string> | undefined): Message {
  if (draft === undefined) return message
  const parts: MessagePart[] = [...message.parts]
  for (const [index, text] of [...draft].sort(([a], [b]) => a - b)) {
    while (parts.length <= index) parts.push({ type: 'text', text: '' })
    const part = parts[index]
    if (part?.type === 'text' && part.text.length < text.length) parts[index] = { type: 'text', text }
  }
  return { ...message, parts }
}

function byReader<T>(rows: readonly { reader: string; spaceId: string; value: T }[]): Map<string, Map<string, T>> {
  const readers = Map.groupBy(rows, ({ reader }) => reader)
  return new Map(
    [...readers].map(([reader, own]) => [reader, new Map(own.map(({ spaceId, value }) => [spaceId, value]))]),
  )
}
