/** The iterations of one log, so that all of them can be ended. */
export interface Iterations {
  /**
   * Wraps a generator whose every wait listens to the signal that it is given. That signal aborts with `outer`, when the
   * consumer returns, be it in the middle of a `next()`, and by `endAll`. Nothing begins before the first `next()`, and
   * nothing is left once the iteration has ended.
   */
  open<T>(outer: AbortSignal, begin: (signal: AbortSignal) => AsyncGenerator<T, void>): AsyncIterableIterator<T>
  /** How many have begun and not ended. */
  count(): number
  /** Ends all of them, and each that is opened from now on at its first `next()`. */
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
