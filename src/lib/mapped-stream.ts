/** Replaces the chunks of a stream with others. */
export interface ChunkMapping<In, Out> {
  /** Returns the chunks that replace a chunk. If this function throws, the stream fails and its source is canceled. */
  push(chunk: In): readonly Out[]
  /** Returns chunks to append after the last chunk. */
  end?(): readonly Out[]
}

/**
 * Returns a stream of the mapped chunks of `source`. Reads from `source` only when its own reader requests a chunk.
 * Unlike `pipeThrough` with a TransformStream, this needs no additional queue and no additional promises per chunk.
 */
export function mappedStream<In, Out>(
  source: ReadableStream<In>,
  { push, end = () => [] }: ChunkMapping<In, Out>,
): ReadableStream<Out> {
  const reader = source.getReader()
  return new ReadableStream<Out>(
    {
      async pull(controller) {
        for (;;) {
          const { done, value } = await reader.read()
          const chunks = done ? end() : await mapped(value)
          for (const chunk of chunks) controller.enqueue(chunk)
          if (done) return controller.close()
          if (chunks.length > 0) return
        }
      },
      cancel: (reason) => reader.cancel(reason),
    },
    { highWaterMark: 0 },
  )

  function mapped(chunk: In): readonly Out[] | Promise<never> {
    try {
      return push(chunk)
    } catch (error) {
      return reader.cancel(error).then(() => {
        throw error
      })
    }
  }
}
