import { createHash } from 'node:crypto'
import type { Viewer } from '../access/viewer.ts'
import { confidentialAmong, type Marks, marksOf, type Provenance, union } from '../confidentiality/marks.ts'
import { Prisma, type Message as Row } from '../generated/prisma/client.ts'
import { BadInputError } from '../lib/errors.ts'
import { createFairTurns } from '../lib/fair-turns.ts'
import { prefixOf } from '../lib/ids.ts'
import { decodePageCursor, encodePageCursor, foreignCursor, type Page } from '../lib/page.ts'
import { requesterHere } from '../lib/requester-context.ts'
import { sqlStateOf } from '../platform/database-errors.ts'
import type { Tx } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'
import { type Message, messageOfRow, textOf } from '../rules/message.ts'
import { isAdmin } from '../rules/permissions.ts'
import { type PartTerm, type QueryPiece, readSearchQuery, type SearchTerms, termsOf } from '../rules/search-query.ts'
import { type Snippet, snippetOf } from '../rules/snippet.ts'
import type { Meaning, QueryVector } from './meaning.ts'

export type SearchOrder = 'BEST' | 'NEWEST'

/** A query and its filters. A filter with the value null is not applied. */
export interface SearchFilter {
  query: string
  spaceId: string | null
  senderId: string | null
  /** Whether the message must have a file. */
  hasFile: boolean | null
  /** Only messages that were sent at or after this time. */
  since: Date | null
  /** Only messages that were sent before this time. */
  until: Date | null
  order: SearchOrder
}

export interface SearchHit extends Snippet {
  message: Message
  /** The file whose name or text matched; null if the message's text matched. */
  fileId: string | null
  /** The cursor of this hit. It is valid only in searches with the same query and filters. */
  cursor: string
}

/** A search hit in the form in which a run reads it. */
export interface RunHit extends Pick<SearchHit, 'message' | 'fileId' | 'snippet'> {
  senderName: string
  senderKind: 'HUMAN' | 'AGENT'
  spaceName: string
}

/** The run that searches. */
export type Searcher = Provenance & { readonly agentId: string }

/** Searches messages and files by words and, with PARLEY_EMBEDDINGS, by meaning. */
export interface Search {
  /**
   * Returns a page of hits that the viewer may read: humans find messages of their spaces, admins find all messages,
   * and services find none. BEST combines the newest 10,000 hits by words with the closest texts by meaning. It sorts
   * them by rank, and hits of equal rank newest first.
   * @throws BadInputError if the query is too long or takes too long, or if the cursor belongs to another search;
   * RateLimitedError if too many searches of the viewer are waiting
   */
  find(viewer: Viewer, filter: SearchFilter, page: { size: number; after: string | null }): Promise<Page<SearchHit>>
  /**
   * Returns the best hits for a run, from those of its agent's spaces that all of its requesters may enter. Searches
   * one space, which the caller has opened, or all of these spaces. A search in all spaces returns only content whose
   * confidential sources are already in the run's label.
   * @throws BadInputError for the same reasons as `find`
   */
  findForRun(
    run: Searcher,
    filter: { query: string; spaceId: string | null; from: string | null; limit: number },
  ): Promise<{ hits: RunHit[]; learned: Marks }>
}

/** BEST ranks this many of the newest hits, and NEWEST reads at most this many for one page. */
const MOST_RANKED = 10_000
/** The search for parts of words runs only if fewer texts than this contain the whole words. */
const ENOUGH_WORDS = 1_000
/**
 * How many of the newest texts are compared by meaning. Comparing 20,000 vectors of 1,536 numbers takes 0.2 s on
 * PostgreSQL. PGlite is slower, has no timeouts, and blocks the process during the comparison.
 */
const MOST_COMPARED = { postgres: 20_000, pglite: 4_000 }
/** The maximum number of hits by meaning. */
const MOST_BY_MEANING = 50
/**
 * The maximum cosine distance of a hit by meaning. Some models place unrelated texts farther apart. For other models,
 * this limit excludes nothing.
 */
const FARTHEST = 0.8
/** The constant of reciprocal rank fusion, from its publication by Cormack, Clarke and Büttcher (2009). */
const FUSION = 60
/** How many characters of a file's name and text are searched. */
const MOST_OF_FILE = 100_000
/** The time limit of one statement, on PostgreSQL. */
const TIMEOUT_MS = 5_000
/** The time limit of a statement that also compares vectors. After this time, the search only matches words. */
const NEAR_TIMEOUT_MS = 2_500
/** The maximum number of concurrent searches in one process, because other work needs database connections too. */
const AT_ONCE = 2
const QUERY_CANCELED = '57014'

/** The position at which the next page begins. */
interface Place {
  rank: number
  messageId: string
  fileId: string
  /** Whether this search also matches parts of words. */
  withParts: boolean
  /**
   * For a search by meaning: the id of the newest message in the searched spaces when the first page was read. Newer
   * messages are excluded, because they would shift the ranks of the others.
   */
  upTo: string | null
}

type FoundRow = Row & { rank: number; fileId: string; withParts: boolean; upTo: string | null; fileText: string | null }

export function createSearch(
  { db, config }: Pick<Platform, 'db' | 'config'>,
  { meaning }: { meaning: Meaning | null },
): Search {
  const mostCompared = config.databaseUrl === null ? MOST_COMPARED.pglite : MOST_COMPARED.postgres
  const turns = createFairTurns({ places: () => Math.max(1, Math.min(AT_ONCE, config.databaseConnections - 1)) })

  /**
   * Executes the statement for the query's terms. Returns no hits if the query has no words. If comparing vectors for
   * the first page takes too long, searches again by words only.
   * @throws BadInputError if the search by words also takes too long
   */
  async function execute<Found extends object>(
    pieces: readonly QueryPiece[],
    page: PageOf,
    statement: (query: PageQuery) => Prisma.Sql,
  ): Promise<Found[]> {
    if (pieces.length === 0) return []
    const timeoutMs = page.near === null ? TIMEOUT_MS : NEAR_TIMEOUT_MS
    try {
      return await turns.run(requesterHere(), () =>
        db.transaction(async (tx) => {
          const terms = termsOf(await foldWithin(tx, pieces, timeoutMs))
          return terms.words === '' ? [] : tx.$queryRaw<Found[]>(statement({ ...page, terms, mostCompared }))
        }),
      )
    } catch (error) {
      if (sqlStateOf(error) !== QUERY_CANCELED) throw error
      if (page.near !== null && page.place === null) return execute(pieces, { ...page, near: null }, statement)
      throw new BadInputError(
        'The search took too long: use more or longer words, or limit the search to a space or a period.',
        'query',
      )
    }
  }

  /** Returns the vector of a query; null if the query has quoted words, which must match literally. */
  async function vectorOf(query: string, pieces: readonly QueryPiece[]): Promise<QueryVector | null> {
    const isLiteral = pieces.length === 0 || pieces.some(({ isQuoted }) => isQuoted)
    return meaning === null || isLiteral ? null : meaning.vectorOf(query.toWellFormed().trim())
  }

  /**
   * Returns the vector for a page; null for a search by words only.
   * @throws BadInputError if the first page used a vector that is now unavailable
   */
  async function vectorForPage(filter: SearchFilter, pieces: readonly QueryPiece[], place: Place | null) {
    if (filter.order !== 'BEST' || (place !== null && place.upTo === null)) return null
    const vector = await vectorOf(filter.query, pieces)
    if (place !== null && vector === null)
      throw new BadInputError(
        'Search by meaning is not available at the moment: start the search again without a cursor.',
        'after',
      )
    return vector && { vector, upTo: place?.upTo ?? null }
  }

  return {
    async find(viewer, filter, { size, after }) {
      const pieces = readSearchQuery(filter.query)
      const key = keyOf(viewer, filter)
      const place = after === null ? null : placeOf(after, key)
      const isBest = filter.order === 'BEST'
      const near = await vectorForPage(filter, pieces, place)
      const rows = await execute<FoundRow>(pieces, { isBest, near, place, size }, (query) =>
        pageSql(viewer, filter, query),
      )
      const items = rows.slice(0, size).map((row): SearchHit => {
        const { rank, fileId, withParts, upTo, fileText, ...message } = row
        return {
          message: messageOfRow(message),
          fileId: fileId === '' ? null : fileId,
          cursor: encodePageCursor(JSON.stringify([key, rank, row.id, fileId, withParts, upTo])),
          ...snippetOf(fileText ?? textOf(messageOfRow(message).parts), pieces),
        }
      })
      // A page with a cursor has a previous page, which contains the cursor's hit.
      return { items, hasNextPage: rows.length > size, hasPreviousPage: place !== null }
    },
    async findForRun(run, { query, spaceId, from, limit }) {
      const pieces = readSearchQuery(query)
      const reach: Reach = {
        spaces: spacesOfRunSql(run, spaceId),
        isEverySpace: false,
        conditions: [...(from === null ? [] : [isFrom(from)]), ...(spaceId === null ? [isWithinLabel(run)] : [])],
      }
      type RunRow = FoundRow & {
        senderName: string
        senderKind: RunHit['senderKind']
        spaceName: string
        heardFrom: string[]
      }
      const vector = await vectorOf(query, pieces)
      const near = vector && { vector, upTo: null }
      const rows = await execute<RunRow>(
        pieces,
        { isBest: true, near, place: null, size: limit },
        (page) => Prisma.sql`
        SELECT found.*, e.name AS "senderName", e.kind::text AS "senderKind", s.name AS "spaceName",
          ${confidentialAmong(Prisma.sql`found.places || found.label || found."spaceId"`)} AS "heardFrom"
        FROM (${hitsSql(reach, page)}) found
        JOIN "Entity" e ON e.id = found."senderId" JOIN "Space" s ON s.id = found."spaceId"
        ORDER BY found.rank DESC, found.id DESC`,
      )
      const shown = rows.slice(0, limit)
      return {
        hits: shown.map(
          ({
            senderName,
            senderKind,
            spaceName,
            rank: _,
            withParts: __,
            upTo: ___,
            heardFrom: ____,
            fileId,
            fileText,
            ...row
          }) => {
            const message = messageOfRow(row)
            const { snippet } = snippetOf(fileText ?? textOf(message.parts), pieces)
            return { message, senderName, senderKind, spaceName, snippet, fileId: fileId === '' ? null : fileId }
          },
        ),
        learned: {
          places: union(shown.map((row) => row.spaceId)),
          label: union(...shown.map(({ heardFrom }) => heardFrom)),
        },
      }
    },
  }
}

/**
 * Normalizes the query's pieces like the texts in the database. Also sets the transaction's timeout, which PGlite
 * ignores. Also disables generic query plans, because the best plan depends on how many texts contain the words.
 */
async function foldWithin(tx: Tx, pieces: readonly QueryPiece[], timeoutMs: number): Promise<QueryPiece[]> {
  const [row] = await tx.$queryRaw<{ folded: string[] }[]>`
    SELECT (SELECT array_agg("searchFold"(piece) ORDER BY place) FROM unnest(${pieces.map(({ text }) => text)}::text[])
        WITH ORDINALITY AS given(piece, place)) AS folded,
      set_config('statement_timeout', ${`${timeoutMs}`}, true), set_config('plan_cache_mode', 'force_custom_plan', true), set_config('jit', 'off', true)`
  return pieces.map((piece, index) => ({ ...piece, text: row?.folded[index] ?? '' }))
}

/** Limits the texts `t` that a search can find. */
interface Reach {
  /** Selects the ids of the spaces that may be read. */
  spaces: Prisma.Sql
  /** Whether `spaces` selects all spaces of the server. */
  isEverySpace: boolean
  /** Conditions on a text `t`: the search's filters, and access rules that `spaces` does not cover. */
  conditions: readonly Prisma.Sql[]
}

interface PageOf {
  isBest: boolean
  /**
   * The vector of the query; null for a search by words only. `upTo` is the value from `Place`; null for the first
   * page.
   */
  near: { vector: QueryVector; upTo: string | null } | null
  place: Place | null
  size: number
}

interface PageQuery extends PageOf {
  terms: SearchTerms
  mostCompared: number
}

const reachOfViewer = (viewer: Viewer, filter: SearchFilter): Reach => ({
  spaces: spacesOfViewerSql(viewer, filter.spaceId),
  isEverySpace: isAdmin(viewer) && filter.spaceId === null,
  conditions: filtersOf(filter),
})

const pageSql = (viewer: Viewer, filter: SearchFilter, query: PageQuery) => Prisma.sql`
  SELECT * FROM (${hitsSql(reachOfViewer(viewer, filter), query)}) found
  ORDER BY ${query.isBest ? Prisma.sql`rank DESC, ` : Prisma.empty} id DESC, "fileId" DESC`

/**
 * Selects hits with their messages, one more than fits on the page. The search by words applies the spaces and
 * conditions of `reach` before it ranks, counts or limits hits. The search by meaning selects the newest texts of the
 * spaces first, and then applies the conditions.
 */
function hitsSql(reach: Reach, { terms, isBest, near, place, size, mostCompared }: PageQuery): Prisma.Sql {
  const query = Prisma.sql`to_tsquery('pg_catalog.simple', ${terms.words})`
  const isOld = near?.upTo == null ? [] : [Prisma.sql`t."messageId" <= ${near.upTo}`]
  const inReach = Prisma.join([Prisma.sql`t."spaceId" IN (${reach.spaces})`, ...reach.conditions, ...isOld], ' AND ')
  const order = isBest
    ? Prisma.sql`rank DESC, "messageId" DESC, "fileId" DESC`
    : Prisma.sql`"messageId" DESC, "fileId" DESC`
  // NEWEST reads from the position where the page begins. BEST must read all hits to compute their ranks.
  const readFrom = isBest || place === null ? Prisma.sql`true` : isAfter(place, false)
  const newest = Prisma.sql`ORDER BY t."messageId" DESC, t."fileId" DESC LIMIT ${MOST_RANKED}`
  const rank = isBest ? Prisma.sql`ts_rank(t.words, ${query}, 1)` : Prisma.sql`0::real`
  const seeksParts =
    place === null
      ? Prisma.sql`(SELECT count(*) FROM by_words) < ${ENOUGH_WORDS}`
      : Prisma.sql`${place.withParts}::boolean`
  const byParts =
    terms.parts === null
      ? Prisma.sql`SELECT "messageId", "fileId", rank FROM by_words WHERE false`
      : Prisma.sql`
        SELECT t."messageId", t."fileId", 0::real AS rank FROM "SearchText" t
        WHERE ${seeksParts} AND ${Prisma.join(terms.parts.map(isPart), ' AND ')} AND NOT t.words @@ ${query}
          AND ${inReach} AND ${readFrom} ${newest}`
  const byText = Prisma.sql`SELECT * FROM by_words UNION ALL SELECT * FROM by_parts`
  const every =
    near === null
      ? Prisma.sql`every AS (${byText})`
      : Prisma.sql`recent AS MATERIALIZED (${recentSql(reach, isOld, mostCompared)}),
        ${fusedSql(byText, byMeaningSql(near.vector, reach.conditions), order)}`
  const isNext = place === null ? Prisma.sql`true` : isAfter(place, isBest)
  const upTo =
    near === null ? Prisma.sql`NULL` : Prisma.sql`coalesce(${near.upTo}::text, (SELECT max("messageId") FROM recent))`
  return Prisma.sql`
    WITH by_words AS MATERIALIZED (
      SELECT t."messageId", t."fileId", ${rank} AS rank FROM "SearchText" t
      WHERE t.words @@ ${query} AND ${inReach} AND ${readFrom} ${newest}
    ), by_parts AS MATERIALIZED (${byParts}),
    ${every}
    SELECT m.*, hit.rank, hit."fileId", (${seeksParts}) AS "withParts", ${upTo} AS "upTo",
      (SELECT left(f.name || chr(10) || coalesce(x.text, ''), ${MOST_OF_FILE}) FROM "File" f LEFT JOIN "FileText" x ON x."fileId" = f.id
        WHERE f.id = hit."fileId") AS "fileText"
    FROM (SELECT * FROM every t WHERE ${isNext} ORDER BY ${order} LIMIT ${size + 1}) hit
    JOIN "Message" m ON m.id = hit."messageId"`
}

/**
 * Selects the newest texts of the spaces, which are then compared by meaning. The filters are applied later, because
 * this subquery would have to read all texts if few of them matched.
 */
function recentSql({ spaces, isEverySpace }: Reach, isOld: readonly Prisma.Sql[], most: number): Prisma.Sql {
  const columns = Prisma.sql`t."messageId", t."fileId", t."spaceId", t."senderId", t."at"`
  const newest = Prisma.sql`ORDER BY t."messageId" DESC, t."fileId" DESC LIMIT ${most}`
  const isInTime = Prisma.join([Prisma.sql`true`, ...isOld], ' AND ')
  if (isEverySpace)
    return Prisma.sql`SELECT ${columns} FROM "SearchText" t WHERE t."spaceId" IN (${spaces}) AND ${isInTime} ${newest}`
  // Reads each space through the index of its texts, because on a large server, it is possible that none of the newest
  // texts are in these spaces.
  return Prisma.sql`
    SELECT t.* FROM (${spaces}) space(id) CROSS JOIN LATERAL (
      SELECT ${columns} FROM "SearchText" t WHERE t."spaceId" = space.id AND ${isInTime} ORDER BY t."messageId" DESC LIMIT ${most}) t
    ${newest}`
}

/** Selects the texts closest to the query among the `recent` texts that satisfy the conditions. */
const byMeaningSql = ({ model, dimension, distanceSql }: QueryVector, conditions: readonly Prisma.Sql[]) => Prisma.sql`
  SELECT "messageId", "fileId", 1 - distance AS rank FROM (
    SELECT near."messageId", near."fileId", ${distanceSql(Prisma.sql`near.vector`)} AS distance
    FROM (
      SELECT t."messageId", t."fileId", v.vector
      FROM recent t JOIN "SearchVector" v ON v."messageId" = t."messageId" AND v."fileId" = t."fileId"
      WHERE ${Prisma.join([Prisma.sql`v.model = ${model} AND cardinality(v.vector) = ${dimension}::int`, ...conditions], ' AND ')} OFFSET 0
    ) near
  ) compared WHERE distance < ${FARTHEST}::float8 ORDER BY distance, "messageId" DESC, "fileId" DESC LIMIT ${MOST_BY_MEANING}`

/** Combines two lists of hits by reciprocal rank fusion: the score of a hit depends on its position in each list. */
function fusedSql(byText: Prisma.Sql, byMeaning: Prisma.Sql, order: Prisma.Sql): Prisma.Sql {
  const placed = (hits: Prisma.Sql) =>
    Prisma.sql`SELECT "messageId", "fileId", 1.0 / (${FUSION}::int + row_number() OVER (ORDER BY ${order})) AS score FROM (${hits}) hits`
  return Prisma.sql`every AS MATERIALIZED (
    SELECT "messageId", "fileId", sum(score)::real AS rank
    FROM (${placed(byText)} UNION ALL ${placed(byMeaning)}) placed GROUP BY 1, 2)`
}

/** Condition: a text `t` comes after the position in the sort order. */
const isAfter = ({ rank, messageId, fileId }: Place, isBest: boolean) =>
  isBest
    ? Prisma.sql`(t.rank, t."messageId", t."fileId") < (${rank}::real, ${messageId}::text, ${fileId}::text)`
    : Prisma.sql`(t."messageId", t."fileId") < (${messageId}::text, ${fileId}::text)`

const isPart = (term: PartTerm) =>
  term.type === 'like'
    ? Prisma.sql`t.plain LIKE ${term.pattern}`
    : Prisma.sql`t.words @@ to_tsquery('pg_catalog.simple', ${term.words})`

/** Selects the spaces that the viewer may read. */
function spacesOfViewerSql(viewer: Viewer, spaceId: string | null): Prisma.Sql {
  if (viewer.scope === 'SERVICE') return Prisma.sql`SELECT s.id FROM "Space" s WHERE false`
  const one = spaceId === null ? Prisma.sql`true` : Prisma.sql`s.id = ${wellFormed(spaceId, 'spc')}`
  const mine = isAdmin(viewer)
    ? Prisma.sql`true`
    : Prisma.sql`EXISTS (SELECT 1 FROM "Membership" o WHERE o."spaceId" = s.id AND o."entityId" = ${viewer.id})`
  return Prisma.sql`SELECT s.id FROM "Space" s WHERE s."deletedAt" IS NULL AND ${one} AND ${mine}`
}

/** Selects the agent's spaces that all requesters of the run may read. */
const spacesOfRunSql = ({ agentId, askers }: Searcher, spaceId: string | null) => Prisma.sql`
  SELECT s.id FROM "Space" s JOIN "Membership" o ON o."spaceId" = s.id AND o."entityId" = ${agentId}
  WHERE s."deletedAt" IS NULL AND ${spaceId === null ? Prisma.sql`true` : Prisma.sql`s.id = ${wellFormed(spaceId, 'spc')}`}
    AND (NOT s.confidential OR NOT EXISTS (
      SELECT 1 FROM unnest(${[...askers]}::text[]) AS asker(id) WHERE NOT EXISTS (
        SELECT 1 FROM "Membership" a WHERE a."spaceId" = s.id AND a."entityId" = asker.id)))`

/** Condition: every confidential source of the message is already a source of the run. */
const isWithinLabel = (run: Marks) => Prisma.sql`EXISTS (
  SELECT 1 FROM "Message" source WHERE source.id = t."messageId"
    AND (${confidentialAmong(Prisma.sql`source.places || source.label || source."spaceId"`)}) <@ ${marksOf(run)}::text[])`

function filtersOf({ senderId, hasFile, since, until }: SearchFilter): Prisma.Sql[] {
  return [
    ...(senderId === null ? [] : [Prisma.sql`t."senderId" = ${wellFormed(senderId, 'hum', 'agt')}`]),
    ...(hasFile === null
      ? []
      : [Prisma.sql`${hasFile}::boolean = EXISTS (SELECT 1 FROM "File" f WHERE f."messageId" = t."messageId")`]),
    ...(since === null ? [] : [Prisma.sql`t."at" >= ${since}::timestamptz`]),
    ...(until === null ? [] : [Prisma.sql`t."at" < ${until}::timestamptz`]),
  ]
}

/** Condition: the sender has this id or this name. */
const isFrom = (from: string) =>
  prefixOf(from) === null
    ? Prisma.sql`t."senderId" IN (SELECT e.id FROM "Entity" e WHERE lower(e.name) = lower(${from.replaceAll('\0', '')}))`
    : Prisma.sql`t."senderId" = ${from}`

/**
 * Returns the id if it has one of the prefixes; otherwise returns an empty string, which matches nothing. An arbitrary
 * string could contain NUL, which PostgreSQL rejects.
 */
const wellFormed = (id: string, ...prefixes: string[]) => (prefixes.includes(prefixOf(id) ?? '-') ? id : '')

/**
 * Returns a key that identifies a search. Each cursor contains this key, because it is valid only in its own search.
 */
function keyOf({ id }: Viewer, { query, spaceId, senderId, hasFile, since, until, order }: SearchFilter): string {
  const parts = [id, query, spaceId, senderId, hasFile, since, until, order]
  return createHash('sha256').update(JSON.stringify(parts)).digest('base64url').slice(0, 16)
}

/** @throws BadInputError if the cursor belongs to another search */
function placeOf(cursor: string, key: string): Place {
  const [ofKey, rank, messageId, fileId, withParts, upTo] = listOf(decodePageCursor(cursor))
  const isPlace =
    ofKey === key &&
    typeof rank === 'number' &&
    typeof messageId === 'string' &&
    prefixOf(messageId) === 'msg' &&
    typeof fileId === 'string' &&
    (fileId === '' || prefixOf(fileId) !== null) &&
    typeof withParts === 'boolean' &&
    (upTo === null || (typeof upTo === 'string' && prefixOf(upTo) === 'msg'))
  if (!isPlace) throw foreignCursor()
  return { rank, messageId, fileId, withParts, upTo }
}

function listOf(text: string): unknown[] {
  try {
    const value: unknown = JSON.parse(text)
    return Array.isArray(value) ? value : []
  } catch {
    return []
  }
}
