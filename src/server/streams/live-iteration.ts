/** What a source of events holds on to: how it learns of its end, and how it brings it about. */
export interface Lifeline {
  /** Aborts when the iteration is over, however it ended. */
  signal: AbortSignal
  /** Ends the iteration with this error, at once, also in the middle of a wait. */
  fail(error: Error): void
  /** Called once the iteration is over; at once when it is over already. */
  onEnd(cleanUp: () => void): void
}

/** An iteration and its lifeline. Whoever asks for one value at a time may leave at any moment: nothing is left behind. */
export interface LiveIteration<T> extends Lifeline {
  /** Says where the values come from; asked for at the first `next()`. */
  from(source: (signal: AbortSignal) => AsyncIterable<T>): AsyncIterableIterator<T>
}

interface Waiting<T> {
  resolve(result: IteratorResult<T>): void
  reject(error: unknown): void
}

const DONE = { done: true as const, value: undefined }

/**
 * An async generator that waits cannot be returned or ended from outside; this can. The source must listen to the signal.
 */
export function createLiveIteration<T>(): LiveIteration<T> {
  const controller = new AbortController()
  const cleanUps: (() => void)[] = []
  let waiting: Waiting<T> | null = null
  let failure: Error | null = null
  let inner: AsyncIterator<T> | null = null

  function end(): void {
    if (controller.signal.aborted) return
    controller.abort()
    for (const cleanUp of cleanUps.splice(0)) cleanUp()
    // Its last wait has been aborted; what it still has to put away it puts away in its own time.
    inner?.return?.().catch(() => {})
  }

  function settle(with_: (waiter: Waiting<T>) => void): void {
    const waiter = waiting
    waiting = null
    if (waiter !== null) with_(waiter)
  }

  function take(result: IteratorResult<T>): void {
    if (result.done) end()
    settle((waiter) => waiter.resolve(result))
  }

  function break_(error: unknown): void {
    end()
    settle((waiter) => waiter.reject(error))
  }

  /** A failure that nobody waited for is thrown once, at the next `next()`. */
  function ended(): Promise<IteratorResult<T>> {
    const error = failure
    failure = null
    return error === null ? Promise.resolve(DONE) : Promise.reject(error)
  }

  return {
    signal: controller.signal,
    fail(error) {
      if (controller.signal.aborted) return
      if (waiting === null) failure = error
      break_(error)
    },
    onEnd(cleanUp) {
      if (controller.signal.aborted) cleanUp()
      else cleanUps.push(cleanUp)
    },
    from(source) {
      const iterator: AsyncIterableIterator<T> = {
        [Symbol.asyncIterator]: () => iterator,
        next() {
          if (controller.signal.aborted) return ended()
          inner ??= source(controller.signal)[Symbol.asyncIterator]()
          const result = new Promise<IteratorResult<T>>((resolve, reject) => {
            waiting = { resolve, reject }
          })
          inner.next().then(take, break_)
          return result
        },
        async return() {
          failure = null
          end()
          settle((waiter) => waiter.resolve(DONE))
          return DONE
        },
      }
      return iterator
    },
  }
}
