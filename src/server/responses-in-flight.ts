import type { ServerResponse } from 'node:http'
import { createWork } from './http/work.ts'

/** The number of responses of the maximum size that may be in flight at a time, over all viewers. */
const MOST_RESPONSES = 4
/** If a viewer's first response is at most this share of the maximum size, it is sent without waiting. */
const FREE_SHARE = 1 / 8
/** A client that reads fewer bytes than this per interval is disconnected while other responses wait. */
const LEAST_BYTES_READ = 64 * 1024
const READ_WITHIN_MS = 1000
/** The maximum time until a response is written. After this time, the client is treated as not reading. */
const WRITTEN_WITHIN_MS = 5000
const RECHECK_MS = 250
/** Responses shorter than this do not wait for other responses. */
export const SHORT_RESPONSE_BYTES = 64 * 1024

/** A transport uses this interface to report that a response was sent. The interface can also disconnect the client. */
export interface Sending {
  /** Calls the listener once the response has been sent or the client has disconnected. */
  onSent(listener: () => void): void
  /** Returns the number of written bytes that the client's connection has not accepted yet. */
  waitingBytes(): number
  cutOff(): void
}

/**
 * A process-wide budget for the bytes of long responses that are serialized but not sent yet. A viewer may have one
 * response of the maximum size in flight. Waiting responses are sent round-robin by viewer.
 */
export interface ResponsesInFlight {
  /**
   * Resolves when the budget allows the response, which then counts until it has been sent.
   * @throws RateLimitedError if the wait takes longer than 10 s; the signal's reason if the signal aborts
   */
  hold(viewerId: string, bytes: number, sending: Sending, signal?: AbortSignal): Promise<void>
  /**
   * Disconnects the client if it does not read while other responses wait. Used for responses that did not wait for
   * the budget.
   */
  watch(sending: Sending): void
}

interface Held {
  readonly sending: Sending
  /** The time at which the response was passed to its connection, or at which the client last read some of it. */
  since: number
  /**
   * The number of bytes that the client's connection had not accepted at the time `since`; 0 until the response is
   * written.
   */
  waitingBytes: number
}

/** Creates a `Sending` for a response that consists of one body. */
export function sendingBy(response: ServerResponse): Sending {
  return {
    onSent(listener) {
      if (response.closed) listener()
      else response.once('close', listener)
    },
    waitingBytes: () => response.writableLength,
    cutOff: () => void response.destroy(),
  }
}

export function createResponsesInFlight(maxResponseBytes: number): ResponsesInFlight {
  const room = createWork({
    mostOfViewer: maxResponseBytes,
    mostInAll: MOST_RESPONSES * maxResponseBytes,
    small: maxResponseBytes * FREE_SHARE,
  })
  const held = new Set<Held>()
  let waiting = 0
  let recheck: NodeJS.Timeout | undefined

  /** Disconnects clients that do not read while other responses wait. */
  function cutOffSlow(): void {
    const now = performance.now()
    for (const one of held) {
      const bytes = one.sending.waitingBytes()
      const isJustWritten = one.waitingBytes === 0 && bytes > 0
      if (isJustWritten || bytes <= one.waitingBytes - LEAST_BYTES_READ) {
        one.waitingBytes = bytes
        one.since = now
      }
      if (now - one.since > (one.waitingBytes > 0 ? READ_WITHIN_MS : WRITTEN_WITHIN_MS)) one.sending.cutOff()
    }
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
    // Several responses may share the same `Sending`.
    const one = { sending, since: performance.now(), waitingBytes: 0 }
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
