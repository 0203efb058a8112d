import { LRUCache } from 'lru-cache'
import { Prisma } from '../generated/prisma/client.ts'
import { type Embedder, EmbeddingRefusedError } from '../lib/embedder.ts'
import { messageOf } from '../lib/errors.ts'
import type { Platform } from '../platform/platform.ts'

/** Search by meaning, which compares a query's vector with the vectors of texts. */
export interface Meaning {
  /** Returns the vector of a query; null if the provider does not respond in time. */
  vectorOf(query: string): Promise<QueryVector | null>
}

export interface QueryVector {
  /** The model that computed the vector. Only vectors of the same model are comparable. */
  readonly model: string
  readonly dimension: number
  /**
   * Returns SQL for the cosine distance between an array of numbers and the query's vector: 0 for the same direction, 1
   * for a right angle.
   */
  distanceSql(vector: Prisma.Sql): Prisma.Sql
}

/** How long a search waits for the provider. After that, the search only matches words. */
const TIMEOUT_MS = 3000
/** After a failure of the provider, searches do not call it for this long. */
const REST_MS = 5000
/** The number of cached query vectors. All pages of a search use the same vector. */
const MOST_CACHED = 200

/**
 * Prepares the database for search by meaning. Logs a message and returns null if the database neither has nor can
 * create the extension `vector` (pgvector).
 */
export async function openMeaning(
  { db, logger }: Pick<Platform, 'db' | 'logger'>,
  embedder: Embedder,
): Promise<Meaning | null> {
  const found = await findExtension(db).then(async (schema) => schema ?? (await createExtension(db, logger)))
  return found === null ? null : createMeaning({ logger }, embedder, found)
}

/** Returns the schema of the extension, quoted; null if it is not installed. */
async function findExtension(db: Platform['db']): Promise<string | null> {
  const [row] = await db.prisma.$queryRaw<{ schema: string }[]>`
    SELECT quote_ident(n.nspname) AS schema FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace
    WHERE e.extname = 'vector' AND has_schema_privilege(n.oid, 'USAGE')`
  return row?.schema ?? null
}

async function createExtension(db: Platform['db'], logger: Platform['logger']): Promise<string | null> {
  try {
    await db.prisma.$executeRaw`CREATE EXTENSION IF NOT EXISTS vector`
    return await findExtension(db)
  } catch (error) {
    // Another process may have created the extension first.
    const found = await findExtension(db)
    if (found === null)
      logger.warn(
        { error: messageOf(error) },
        'PARLEY_EMBEDDINGS has no effect: the database has no extension "vector". Install pgvector on the server, execute CREATE EXTENSION vector as its owner, and restart',
      )
    return found
  }
}

function createMeaning({ logger }: Pick<Platform, 'logger'>, embedder: Embedder, schema: string): Meaning {
  const cache = new LRUCache<string, Promise<number[]>>({ max: MOST_CACHED })
  const inSchema = Prisma.raw(schema)
  let restsUntil = 0

  async function request(query: string): Promise<number[]> {
    const [vector = []] = await embedder.embed([query], AbortSignal.timeout(TIMEOUT_MS))
    return vector
  }

  async function vectorOf(query: string): Promise<number[] | null> {
    const known = cache.get(query)
    if (known === undefined && performance.now() < restsUntil) return null
    const pending = known ?? request(query)
    cache.set(query, pending)
    try {
      return await pending
    } catch (error) {
      if (cache.peek(query) === pending) cache.delete(query)
      if (error instanceof EmbeddingRefusedError) return null
      if (performance.now() >= restsUntil)
        logger.warn(
          { model: embedder.model, error: messageOf(error) },
          'could not embed a search query; for some seconds, searches match words only',
        )
      restsUntil = performance.now() + REST_MS
      return null
    }
  }

  return {
    async vectorOf(query) {
      const vector = await vectorOf(query)
      if (vector === null) return null
      const literal = `[${vector.join()}]`
      return {
        model: embedder.model,
        dimension: vector.length,
        // The vector is in an uncorrelated subquery, because PostgreSQL evaluates such a subquery only once.
        distanceSql: (other) =>
          Prisma.sql`${inSchema}.cosine_distance(${other}::${inSchema}.vector, (SELECT ${literal}::text::${inSchema}.vector))`,
      }
    },
  }
}
