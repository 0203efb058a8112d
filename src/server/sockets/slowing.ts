import type { WebSocket } from 'ws'

const WINDOW_MS = 1000
/** Within a window. */
const MOST_REFUSALS = 100

/**
 * Slows down who does not: to be called for each operation that was refused for its viewer's rate. After a hundred within a second the
 * socket is not read until that is over, so that refusing costs others little; what it sends then waits on its own side.
 */
export function createSlowing(socket: WebSocket): () => void {
  let since = Number.NEGATIVE_INFINITY
  let refused = 0
  return () => {
    const now = performance.now()
    if (now - since > WINDOW_MS) {
      since = now
      refused = 0
    }
    refused += 1
    if (refused !== MOST_REFUSALS) return
    socket.pause()
    setTimeout(() => socket.resume(), since + WINDOW_MS - now).unref()
  }
}
