import { createWork } from './http/work.ts'

/** Responses of the largest size that may be on their way to clients at a time, over all viewers. */
const MOST_RESPONSES = 4
/** How long a client may take to read a response before it is cut off, once another response waits for room. */
const SENDING_MS = 5000
const RECHECK_MS = 500

/** How a transport says that a response has gone out, and how its client is cut off. */
export interface Sending {
  /** Calls the listener once the response has been sent, or its client has gone. */
  onSent(listener: () => void): void
  cutOff(): void
}

/**
 * A budget of bytes, over the whole process, for long responses that have been put together and have not been sent. A viewer
 * may have one response of the largest size on its way; viewers that wait for room are served in turn.
 */
export interface ResponsesInFlight {
  /**
   * Resolves when there is room for the response, which then counts until it has been sent.
   * @throws RateLimitedError where there is no room within 10 s; the signal's reason where it aborts meanwhile
   */
  hold(viewerId: string, bytes: number, sending: Sending, signal?: AbortSignal): Promise<void>
}

export function createResponsesInFlight(maxResponseBytes: number): ResponsesInFlight {
  const room = createWork({ mostOfViewer: maxResponseBytes, mostInAll: MOST_RESPONSES * maxResponseBytes })
  const held = new Map<Sending, number>()
  let waiting = 0
  let recheck: NodeJS.Timeout | undefined

  /** Cuts off clients that do not read while others wait. */
  function cutOffSlow(): void {
    const now = performance.now()
    for (const [sending, since] of held) if (now - since > SENDING_MS) sending.cutOff()
  }

  async function waitForRoom(viewerId: string, bytes: number, signal?: AbortSignal): Promise<() => void> {
    waiting += 1
    recheck ??= setInterval(cutOffSlow, RECHECK_MS).unref()
    try {
      return await room.begin(viewerId, bytes, signal)
    } finally {
      waiting -= 1
      if (waiting === 0) {
        clearInterval(recheck)
        recheck = undefined
      }
    }
  }

  return {
    async hold(viewerId, bytes, sending, signal) {
      const release = await waitForRoom(viewerId, Math.min(bytes, maxResponseBytes), signal)
      held.set(sending, performance.now())
      sending.onSent(() => {
        if (held.delete(sending)) release()
      })
    },
  }
}
