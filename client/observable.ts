/** A state that changes, and a way to be told: what React's `useSyncExternalStore` and every other framework can take. */
export interface Observable<State> {
  /** The state as it is now. The same object until something changes; what did not change in it stays the same object too. */
  getState(): State
  /**
   * Calls `listener` after changes, many of them at once as one. What is watched begins with the first listener and rests
   * after the last; who listens again goes on where it was. Gives the way to stop.
   */
  subscribe(listener: () => void): () => void
}

export interface ObservableOptions<State> {
  /** Makes the state anew; called only after a change, when somebody looks. */
  read(): State
  /** With the first listener; what it gives is called after the last one has gone. */
  start?(): () => void
}

/** An observable, and `changed`, which its owner calls after each change. */
export function createObservable<State>({ read, start }: ObservableOptions<State>) {
  const listeners = new Set<() => void>()
  let state: State | undefined
  let isTelling = false
  let stop: (() => void) | undefined

  function tell(): void {
    isTelling = false
    for (const listener of [...listeners]) listener()
  }

  return {
    getState(): State {
      state ??= read()
      return state
    },
    subscribe(listener: () => void): () => void {
      // One function that listens twice is two listeners.
      const own = () => listener()
      listeners.add(own)
      if (listeners.size === 1) stop = start?.()
      return () => {
        if (!listeners.delete(own) || listeners.size > 0) return
        stop?.()
        stop = undefined
      }
    },
    changed(): void {
      state = undefined
      if (isTelling || listeners.size === 0) return
      isTelling = true
      soon(tell)
    },
  }
}

const HIDDEN_PAGE_MS = 250

/** With the next frame, where there are frames; a page that is hidden has none, and is told all the same. */
function soon(tell: () => void): void {
  if (typeof requestAnimationFrame !== 'function') {
    queueMicrotask(tell)
    return
  }
  let isDone = false
  const once = () => {
    if (isDone) return
    isDone = true
    cancelAnimationFrame(frame)
    clearTimeout(timer)
    tell()
  }
  const frame = requestAnimationFrame(once)
  const timer = setTimeout(once, HIDDEN_PAGE_MS)
}
