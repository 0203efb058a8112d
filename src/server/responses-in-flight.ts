import type { ServerResponse } from 'node:http'
import { createWork } from './http/work.ts'

/** The number of responses of the maximum size that may be in flight at a time, over all viewers. */
const MOST_RESPONSES = 4
/** A viewer's first response up to this share of the maximum size does not wait for room. */
const FREE_SHARE = 1 / 8
/** While another response waits for room, a client must read at least this much in this time, or is disconnected. */
const LEAST_BYTES_READ = 64 * 1024
const READ_WITHIN_MS = 1000
/** How long writing a response may take, after which it counts as not being read. */
const WRITTEN_WITHIN_MS = 5000
const RECHECK_MS = 250
/** Shorter responses are not held back while others are in flight. */
export const SHORT_RESPONSE_BYTES = 64 * 1024

/** How a transport reports that a response was sent, and disconnects its client. */
export interface Sending {
  /** Calls the listener once the response was sent, or the client has disconnected. */
  onSent(listener: () => void): void
  /** The bytes that were written and that the client's connection has not taken yet. */
  waitingBytes(): number
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
  /** Disconnects the client if it does not read while other responses wait, even though its response did not wait for the budget. */
  watch(sending: Sending): void
}

interface Held {
  readonly sending: Sending
  /** When the response was passed to its connection, or when its client was last seen to read. */
  since: number
  /** The bytes that waited for the client at that time; 0 until the response is written. */
  waitingBytes: number
}

/** The sending of a response that consists of one body. */
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
    // The same sending may have several responses at once.
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
