import type { ServerResponse } from 'node:http'
import { createWork } from './http/work.ts'

/** The number of responses of the maximum size that may be in flight at a time, over all viewers. */
const MOST_RESPONSES = 4
/** How long a client may take to read a response before it is disconnected, if another response waits for room. */
const SENDING_MS = 5000
const RECHECK_MS = 500
/** Shorter responses are not held back while others are in flight. */
export const SHORT_RESPONSE_BYTES = 64 * 1024

/** How a transport reports that a response was sent, and disconnects its client. */
export interface Sending {
  /** Calls the listener once the response was sent, or the client has disconnected. */
  onSent(listener: () => void): void
  cutOff(): void
}

/**
 * A budget of bytes, for the whole process, of long responses that are serialized but not sent yet. A viewer may
 * have one response of the maximum size in flight; viewers that wait for room take turns.
 */
export interface ResponsesInFlight {
  /**
   * Resolves when there is room for the response, which then counts until it was sent.
   * @throws RateLimitedError if there is no room within 10 s; the signal's reason if it aborts in the meantime
   */
  hold(viewerId: string, bytes: number, sending: Sending, signal?: AbortSignal): Promise<void>
  /** Disconnects the client if it reads slowly while other responses wait, even though its response did not wait for the budget. */
  watch(sending: Sending): void
}

/** The sending of a response that consists of one body. */
export function sendingBy(response: ServerResponse): Sending {
  return {
    onSent(listener) {
      if (response.closed) listener()
      else response.once('close', listener)
    },
    cutOff: () => void response.destroy(),
  }
}

export function createResponsesInFlight(maxResponseBytes: number): ResponsesInFlight {
  const room = createWork({ mostOfViewer: maxResponseBytes, mostInAll: MOST_RESPONSES * maxResponseBytes })
  /** When each response was passed to its connection. */
  const held = new Set<{ sending: Sending; since: number }>()
  let waiting = 0
  let recheck: NodeJS.Timeout | undefined

  /** Disconnects clients that do not read while other responses wait. */
  function cutOffSlow(): void {
    const now = performance.now()
    for (const { sending, since } of held) if (now - since > SENDING_MS) sending.cutOff()
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

  function hand(sending: Sending, onEnd: () => void): void {
    // The same sending may have several responses at once.
    const one = { sending, since: performance.now() }
    held.add(one)
    sending.onSent(() => {
      if (held.delete(one)) onEnd()
    })
  }

  return {
    async hold(viewerId, bytes, sending, signal) {
      const release = await waitForRoom(viewerId, Math.min(bytes, maxResponseBytes), signal)
      hand(sending, release)
    },
    watch: (sending) => hand(sending, () => {}),
  }
}
