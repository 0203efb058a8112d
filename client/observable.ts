/** A state with change notifications, in the form that React's `useSyncExternalStore` and other frameworks expect. */
export interface Observable<State> {
  /** Returns the current state, as the same object until it changes. Unchanged parts keep their identity. */
  getState(): State
  /**
   * Calls `listener` after changes; several changes at the same time cause one call. The source starts with the first listener,
   * pauses when the last one has been removed, and resumes with the next. Returns a function that removes the listener.
   */
  subscribe(listener: () => void): () => void
}

export interface ObservableOptions<State> {
  /** Computes the state. Called only when the state is read after a change. */
  read(): State
  /** Called with the first listener. The returned function is called after the last listener was removed. */
  start?(): () => void
}

/** Creates an observable. Its owner calls `changed` after each change. */
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
      // Wrap the function, so that adding the same function twice adds two listeners.
      const own = () => listener()
      listeners.add(own)
      try {
        if (listeners.size === 1) stop = start?.()
      } catch (failure) {
        listeners.delete(own)
        throw failure
      }
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

/** Runs a function at the next animation frame, or after a timeout in a hidden page, which has no frames. */
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
