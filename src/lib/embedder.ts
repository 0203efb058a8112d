/** Computes the vectors of texts, whose angles show how similar the meanings are. All vectors of a model have the same dimension. */
export interface Embedder {
  /** The model of PARLEY_EMBEDDINGS, in the form `<provider>:<model>`. */
  readonly model: string
  /**
   * Returns a vector for each text, in order. No text may be empty.
   * @throws EmbeddingRefusedError if the provider does not accept the texts; Error with the provider's message,
   * without secrets, if the provider is unavailable
   */
  embed(texts: readonly string[], signal: AbortSignal): Promise<number[][]>
}

/** The provider does not accept one of the texts: the same request would be refused again. */
export class EmbeddingRefusedError extends Error {
  constructor(message: string) {
    super(message)
    this.name = 'EmbeddingRefusedError'
  }
}
