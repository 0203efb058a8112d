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

/** The beginning of a text that its vector represents. Most models read about as many tokens. */
export const EMBEDDED_CHARACTERS = 8000
/** The beginning of a text that the provider has refused, perhaps because it is too long for the model. */
const SHORTENED_CHARACTERS = 1000
const TEXTS_AT_ONCE = 64
const BACKFILLED_MESSAGES = 500
const REQUEST_TIMEOUT_MS = 60_000
/** A job ends after this time; the next one continues. */
const LONGEST_JOB_MS = 300_000
const PROBE = 'text'

/**
 * Computes the vectors of new and changed texts, then of older ones. The rows without a vector say what there is to do, so an
 * attempt that dies repeats at most one request. An attempt fails while the provider is unavailable; the queue delays the next one.
 */
export function createTextEmbedding({ db }: Pick<Platform, 'db'>, embedder: Embedder): BoundJob {
  const request = (texts: readonly string[], signal: AbortSignal) =>
    embedder.embed(texts, AbortSignal.any([signal, AbortSignal.timeout(REQUEST_TIMEOUT_MS)]))

  /** Returns an empty vector if the provider refuses even the beginning of the text. */
  async function vectorOfOne(text: string, signal: AbortSignal): Promise<readonly number[]> {
    for (const characters of [text.length, SHORTENED_CHARACTERS]) {
      try {
        const [vector = []] = await request([text.slice(0, characters).toWellFormed()], signal)
        return vector
      } catch (error) {
        if (!(error instanceof EmbeddingRefusedError)) throw error
      }
    }
    return []
  }

  async function vectorsOf(texts: readonly PendingText[], signal: AbortSignal): Promise<TextVector[]> {
    const all = texts.map(({ text }) => text)
    try {
      const vectors = await request(all, signal)
      return texts.map((text, index) => vectorOf(text, vectors[index] ?? []))
    } catch (error) {
      if (!(error instanceof EmbeddingRefusedError)) throw error
    }
    // One of the texts is the reason, unless the provider refuses any text.
    await request([PROBE], signal)
    const vectors: TextVector[] = []
    for (const text of texts) vectors.push(vectorOf(text, await vectorOfOne(text.text, signal)))
    return vectors
  }

  async function embedTexts(texts: readonly PendingText[], signal: AbortSignal): Promise<void> {
    const isEmpty = ({ text }: PendingText) => text.trim() === ''
    const empty = texts.filter(isEmpty).map((text) => vectorOf(text, []))
    const given = texts.filter((text) => !isEmpty(text))
    const vectors = given.length === 0 ? [] : await vectorsOf(given, signal)
    await db.query(storeVectorsSql(embedder.model, [...empty, ...vectors]))
  }

  let isSet = false
  return bindJob(EMBED_TEXTS, async (_, { signal }) => {
    // Once for each process: one that started later may set another model.
    if (!isSet) await db.transaction((tx) => setSearchModel(tx, embedder.model))
    isSet = true
    const until = performance.now() + LONGEST_JOB_MS
    const isCurrent = async () => (await searchModelOf(db.prisma))?.name === embedder.model
    while (performance.now() < until && (await isCurrent())) {
      signal.throwIfAborted()
      const texts = await db.query<PendingText>(pendingTextsSql(TEXTS_AT_ONCE, EMBEDDED_CHARACTERS))
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

/** Ends the computing of vectors. Workers without PARLEY_EMBEDDINGS do so when they start. */
export async function endTextEmbedding({ db }: Pick<Platform, 'db'>): Promise<void> {
  await db.transaction((tx) => clearSearchModel(tx))
}
