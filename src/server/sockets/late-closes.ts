// Closes the sockets of clients that do not read, so that the clients still get the close code when they read again.
import type { WebSocket } from 'ws'

export interface LateCloses {
  /**
   * Sends a close frame after all data that the client has not read yet, and then writes nothing more. The client
   * receives the frame if it reads within 30 s. After this time, the connection is destroyed.
   */
  close(socket: WebSocket, code: number, reason: string): void
}

export interface LateClosesOptions {
  cutOffMs?: number
  /** The maximum memory for all closing sockets in this process, not counting the kernel's buffers. */
  mostBytes?: number
}

/** Longer than the 25 s for which a client may pause and still receive the close code. */
const CUT_OFF_MS = 30_000
const MOST_BYTES = 64 * 1024 * 1024
/** The memory that a closing socket takes in addition to its buffered data. */
const BYTES_OF_SOCKET = 4096

/**
 * Closes the sockets of clients that do not read. If the closing sockets exceed the memory limit, those that have
 * been closing for longest are destroyed early.
 */
export function createLateCloses({
  cutOffMs = CUT_OFF_MS,
  mostBytes = MOST_BYTES,
}: LateClosesOptions = {}): LateCloses {
  const closing = new Map<WebSocket, number>()
  let bytes = 0

  function forget(socket: WebSocket): void {
    bytes -= closing.get(socket) ?? 0
    closing.delete(socket)
  }

  return {
    close(socket, code, reason) {
      if (socket.readyState !== socket.OPEN) return
      socket.close(code, reason)
      const held = socket.bufferedAmount + BYTES_OF_SOCKET
      closing.set(socket, held)
      bytes += held
      const cutOff = setTimeout(() => socket.terminate(), cutOffMs).unref()
      socket.once('close', () => {
        clearTimeout(cutOff)
        forget(socket)
      })
      for (const [oldest] of closing) {
        if (bytes <= mostBytes) break
        forget(oldest)
        oldest.terminate()
      }
    },
  }
}
