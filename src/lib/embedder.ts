/**
 * Computes vectors of texts. The smaller the angle between two vectors, the more similar are the meanings of the texts.
 * All vectors of a model have the same dimension.
 */
export interface Embedder {
  /** The model that PARLEY_EMBEDDINGS selects, in the form `<provider>:<model>`. */
  readonly model: string
  /**
   * Returns a vector for each text, in order. No text may be empty.
   * @throws EmbeddingRefusedError if the provider rejects the texts; Error with the provider's message, without
   * secrets, if the provider is unavailable
   */
  embed(texts: readonly string[], signal: AbortSignal): Promise<number[][]>
}

/** The provider rejects one of the texts, and would reject the same request again. */
export class EmbeddingRefusedError extends Error {
  constructor(message: string) {
    super(message)
    this.name = 'EmbeddingRefusedError'
  }
}
