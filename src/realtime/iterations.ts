/** The open iterations of one log, so that `close` can end all of them. */
export interface Iterations {
  /**
   * Wraps a generator. The generator must pass the signal it is given to everything it awaits. That signal
   * aborts with `outer`, when the consumer returns (also during a pending `next()`), and on `endAll`. The
   * generator starts at the first `next()`, and no listener remains after its end.
   */
  open<T>(outer: AbortSignal, begin: (signal: AbortSignal) => AsyncGenerator<T, void>): AsyncIterableIterator<T>
  /** The number of iterations that have started and not ended. */
  count(): number
  /** Ends all iterations. An iteration that is opened later ends at its first `next()`. */
  endAll(): void
}

export function createIterations(): Iterations {
  const running = new Set<AbortController>()
  let ended = false

  function open<T>(outer: AbortSignal, begin: (signal: AbortSignal) => AsyncGenerator<T, void>) {
    const controller = new AbortController()
    const abort = () => controller.abort()
    let generator: AsyncGenerator<T, void> | null = null

    function start(): AsyncGenerator<T, void> {
      if (ended || outer.aborted) controller.abort()
      outer.addEventListener('abort', abort, { once: true })
      running.add(controller)
      return begin(controller.signal)
    }

    function settle(): void {
      outer.removeEventListener('abort', abort)
      running.delete(controller)
    }

    async function finish(): Promise<IteratorReturnResult<undefined>> {
      controller.abort()
      await generator?.return()
      settle()
      return { done: true, value: undefined }
    }

    const iterator: AsyncIterableIterator<T> = {
      [Symbol.asyncIterator]: () => iterator,
      async next() {
        if (controller.signal.aborted) return finish()
        generator ??= start()
        try {
          const result = await generator.next()
          if (!result.done && !controller.signal.aborted) return result
          return await finish()
        } catch (error) {
          settle()
          throw error
        }
      },
      return: finish,
    }
    return iterator
  }

  return {
    open,
    count: () => running.size,
    endAll() {
      ended = true
      for (const controller of running) controller.abort()
    },
  }
}
