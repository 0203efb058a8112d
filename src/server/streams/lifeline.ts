/** What a source of events holds on to: how it learns of its end, and how it brings it about. */
export interface Lifeline {
  /** Aborts when the subscription is over, however it ended. */
  signal: AbortSignal
  /** Ends the subscription with this error, at once, also in the middle of a wait. */
  fail(error: Error): void
  /** Called once the subscription is over; at once when it is over already. */
  onEnd(cleanUp: () => void): void
}

/** A lifeline in the hands of whoever began the subscription. */
export interface OwnLifeline extends Lifeline {
  end(): void
  /** What ended it; null where nothing failed. */
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
