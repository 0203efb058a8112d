/** The lifetime of a subscription, as its event source sees it: the source learns of the end, and can cause it. */
export interface Lifeline {
  /** Aborts when the subscription has ended for any reason. */
  signal: AbortSignal
  /** Ends the subscription with this error, at once, also during a wait. */
  fail(error: Error): void
  /** Calls `cleanUp` when the subscription ends; at once if it has ended. */
  onEnd(cleanUp: () => void): void
}

/** The lifetime of a subscription, for the code that opened it. */
export interface OwnLifeline extends Lifeline {
  end(): void
  /** The error that ended the subscription; null if there was none. */
  failure(): Error | null
}

export function createLifeline(): OwnLifeline {
  const controller = new AbortController()
  const { signal } = controller
  const cleanUps: (() => void)[] = []
  let failure: Error | null = null

  function end(): void {
    if (signal.aborted) return
    controller.abort()
    for (const cleanUp of cleanUps.splice(0)) cleanUp()
  }

  return {
    signal,
    end,
    fail(error) {
      if (signal.aborted) return
      failure = error
      end()
    },
    failure: () => failure,
    onEnd(cleanUp) {
      if (signal.aborted) cleanUp()
      else cleanUps.push(cleanUp)
    },
  }
}
