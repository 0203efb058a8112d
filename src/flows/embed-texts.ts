import { type BoundJob, bindJob } from '../jobs/job.ts'
import { EMBED_TEXTS } from '../jobs/queues.ts'
import { type Embedder, EmbeddingRefusedError } from '../lib/embedder.ts'
import type { Platform } from '../platform/platform.ts'
import {
  backfillVectors,
  clearSearchModel,
  type PendingText,
  pendingTextsSql,
  searchModelOf,
  setSearchModel,
  storeVectorsSql,
  type TextVector,
} from '../stores/vector-store.ts'

/**
 * The vector of a text is computed from this number of characters at its beginning. Most models accept about this
 * many tokens.
 */
export const EMBEDDED_CHARACTERS = 8000
/**
 * The number of characters to embed after the provider has refused a text, which may have been too long for the
 * model.
 */
const SHORTENED_CHARACTERS = 1000
const TEXTS_AT_ONCE = 64
const BACKFILLED_MESSAGES = 500
const REQUEST_TIMEOUT_MS = 60_000
/**
 * After this time a job starts no further batch; the next job continues. The limit leaves time for the last batch,
 * which takes at most three requests, because queues end jobs after 600 s.
 */
const LONGEST_JOB_MS = 300_000
const PROBE = 'text'

/**
 * Computes the vectors of new and changed texts, then of older ones. Rows without a vector are the remaining work.
 * The vectors of each request are stored immediately, so a crash repeats at most one request. After a refusal, the
 * batches become smaller, until one consists of only the refused text. While the provider is unavailable, attempts
 * fail and the queue delays the next one, which uses the same batch size.
 */
export function createTextEmbedding({ db, logger }: Pick<Platform, 'db' | 'logger'>, embedder: Embedder): BoundJob {
  let textsAtOnce = TEXTS_AT_ONCE

  const request = (texts: readonly string[], signal: AbortSignal) =>
    embedder.embed(texts, AbortSignal.any([signal, AbortSignal.timeout(REQUEST_TIMEOUT_MS)]))

  /**
   * Returns the vector of the beginning of a refused text, or an empty vector if the provider refuses the beginning
   * too.
   * @throws Error if the provider currently refuses every text
   */
  async function vectorOfRefused(text: string, signal: AbortSignal): Promise<readonly number[]> {
    try {
      const [vector = []] = await request([text.slice(0, SHORTENED_CHARACTERS).toWellFormed()], signal)
      return vector
    } catch (error) {
      if (!(error instanceof EmbeddingRefusedError)) throw error
    }
    await request([PROBE], signal)
    return []
  }

  const store = (vectors: readonly TextVector[]) => db.query(storeVectorsSql(embedder.model, vectors))

  /** Embeds the texts. If the provider refuses one of several texts, halves the size of the next batch. */
  async function embedTexts(texts: readonly PendingText[], signal: AbortSignal): Promise<void> {
    const isEmpty = ({ text }: PendingText) => text.trim() === ''
    const empty = texts.filter(isEmpty)
    if (empty.length > 0) await store(empty.map((text) => vectorOf(text, [])))
    const given = texts.filter((text) => !isEmpty(text))
    const [first] = given
    if (first === undefined) return
    try {
      const vectors = await request(
        given.map(({ text }) => text),
        signal,
      )
      await store(given.map((text, index) => vectorOf(text, vectors[index] ?? [])))
      textsAtOnce = Math.min(TEXTS_AT_ONCE, 2 * textsAtOnce)
    } catch (error) {
      if (!(error instanceof EmbeddingRefusedError)) throw error
      if (given.length === 1) await store([vectorOf(first, await vectorOfRefused(first.text, signal))])
      else textsAtOnce = Math.ceil(given.length / 2)
    }
  }

  let isSet = false
  const warned = new Set<string | null>()

  /**
   * Whether this process's model is the current one. Sets the model again if a worker without PARLEY_EMBEDDINGS has
   * removed it.
   */
  async function isCurrent(): Promise<boolean> {
    const name = (await searchModelOf(db.prisma))?.name ?? null
    if (name === embedder.model) return true
    if (!warned.has(name))
      logger.warn(
        { model: embedder.model, other: name },
        name === null
          ? 'a worker without PARLEY_EMBEDDINGS has started, and this process continues to embed texts; set PARLEY_EMBEDDINGS to the same value in all processes'
          : 'this process does not embed texts, because a worker with a different PARLEY_EMBEDDINGS has started; set PARLEY_EMBEDDINGS to the same value in all processes, and restart them',
      )
    warned.add(name)
    if (name !== null) return false
    await db.transaction((tx) => setSearchModel(tx, embedder.model))
    return true
  }

  return bindJob(EMBED_TEXTS, async (_, { signal }) => {
    // Sets the model only once per process, because a process that started later may have set another model.
    if (!isSet) await db.transaction((tx) => setSearchModel(tx, embedder.model))
    isSet = true
    const until = performance.now() + LONGEST_JOB_MS
    while (performance.now() < until && (await isCurrent())) {
      signal.throwIfAborted()
      const texts = await db.query<PendingText>(pendingTextsSql(textsAtOnce, EMBEDDED_CHARACTERS))
      if (texts.length > 0) await embedTexts(texts, signal)
      else if (!(await db.transaction((tx) => backfillVectors(tx, embedder.model, BACKFILLED_MESSAGES)))) return
    }
  })
}

const vectorOf = ({ messageId, fileId, revision }: PendingText, vector: readonly number[]): TextVector => ({
  messageId,
  fileId,
  revision,
  vector,
})

/**
 * Stops the computation of vectors. A worker without PARLEY_EMBEDDINGS calls this function when it starts. Workers
 * that still have the setting then start the computation again.
 */
export async function endTextEmbedding({ db }: Pick<Platform, 'db'>): Promise<void> {
  await db.transaction((tx) => clearSearchModel(tx))
}
