import { asOwnWork } from './requester-context.ts'

/** A promise that other code resolves or rejects. */
export interface Deferred<T> {
  promise: Promise<T>
  resolve: (value: T) => void
  reject: (error: unknown) => void
}

export function createDeferred<T = void>(): Deferred<T> {
  const { promise, resolve, reject } = Promise.withResolvers<T>()
  return { promise, resolve, reject }
}

/** Resolves after `ms`, or as soon as `signal` aborts. Never rejects. The timer does not keep the process alive. */
export function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const end = () => {
      clearTimeout(timer)
      signal?.removeEventListener('abort', end)
      resolve()
    }
    const timer = setTimeout(end, ms)
    timer.unref()
    if (signal?.aborted) end()
    else signal?.addEventListener('abort', end, { once: true })
  })
}

/** Returns the result of `work`; null as soon as the signal aborts. Removes its listener from the signal at the end. */
export function orNullIfAborted<T>(signal: AbortSignal, work: Promise<T>): Promise<T | null> {
  return new Promise((resolve, reject) => {
    const abort = () => resolve(null)
    if (signal.aborted) return abort()
    signal.addEventListener('abort', abort, { once: true })
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', abort))
  })
}

/**
 * Returns the result of `work`, or rejects with the signal's reason as soon as the signal aborts. Use it for work that
 * reacts to an abort late or never.
 */
export async function unlessAborted<T>(signal: AbortSignal, work: Promise<T>): Promise<T> {
  work.catch(() => {})
  signal.throwIfAborted()
  const { promise, reject } = Promise.withResolvers<never>()
  const stop = () => reject(signal.reason)
  signal.addEventListener('abort', stop, { once: true })
  try {
    return await Promise.race([work, promise])
  } finally {
    signal.removeEventListener('abort', stop)
  }
}

/** Runs functions one at a time in the order of the calls. A failure does not stop the next function. */
export interface Serial {
  run<T>(task: () => Promise<T>): Promise<T>
  /** Resolves when all functions queued so far have ended. */
  idle(): Promise<void>
}

export function createSerial(): Serial {
  let tail: Promise<unknown> = Promise.resolve()
  return {
    run(task) {
      const result = tail.then(task)
      tail = result.catch(() => {})
      return result
    },
    async idle() {
      await tail
    },
  }
}

/**
 * Runs functions with the same key one at a time, in the order of the calls. Functions with different keys run
 * concurrently.
 */
export function createLines(): <T>(key: string, task: () => Promise<T>) => Promise<T> {
  const tails = new Map<string, Promise<unknown>>()
  return (key, task) => {
    const result = (tails.get(key) ?? Promise.resolve()).then(task)
    const tail = result
      .catch(() => {})
      .then(() => {
        if (tails.get(key) === tail) tails.delete(key)
      })
    tails.set(key, tail)
    return result
  }
}

/**
 * Returns a function that runs `work`, never twice at the same time. All calls while `work` runs share one further
 * execution. `work` must not fail.
 */
export function createShared<T>(work: () => Promise<T>): () => Promise<T> {
  let underWay: Promise<unknown> = Promise.resolve()
  let next: Promise<T> | null = null
  return () => {
    next ??= underWay.then(() => {
      next = null
      const begun = asOwnWork(work)
      underWay = begun
      return begun
    })
    return next
  }
}

/** A wake-up signal. If nobody waits, the signal is kept and the next wait returns immediately. */
export interface Bell {
  ring(): void
  /** Resolves at the next signal, after `timeoutMs`, or when `signal` aborts. */
  wait(timeoutMs: number, signal: AbortSignal): Promise<void>
}

export function createBell(): Bell {
  let rung = false
  let wake: (() => void) | null = null
  return {
    ring() {
      rung = true
      wake?.()
    },
    // This is not an async function, because such a function would take more memory. Each idle stream of a protocol
    // endpoint waits here.
    wait(timeoutMs, signal) {
      if (rung || signal.aborted) {
        rung = false
        return Promise.resolve()
      }
      return new Promise((resolve) => {
        const end = () => {
          wake = null
          rung = false
          clearTimeout(timer)
          signal.removeEventListener('abort', end)
          resolve()
        }
        const timer = setTimeout(end, timeoutMs)
        timer.unref()
        signal.addEventListener('abort', end, { once: true })
        wake = end
      })
    },
  }
}
