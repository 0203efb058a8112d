import type { WebSocket } from 'ws'

const WINDOW_MS = 1000
/** The maximum number of refusals per window. */
const MOST_REFUSALS = 100

/**
 * Returns a function to call for each operation that was refused for its viewer's rate. After 100 refusals
 * within a second, the socket is not read until the second is over, so that refusals cost the server little;
 * what the client sends waits on its own side.
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
