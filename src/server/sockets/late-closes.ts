import type { WebSocket } from 'ws'

export interface LateCloses {
  /**
   * Sends a close frame behind all that the client has not read yet, and writes nothing more: the client receives the frame when it reads on
   * within 30 s. Then the socket is cut off.
   */
  close(socket: WebSocket, code: number, reason: string): void
}

export interface LateClosesOptions {
  cutOffMs?: number
  /** What all sockets that are being closed may hold in this process. What the system holds of them is not counted. */
  mostBytes?: number
}

/** Longer than a client may pause and still receive the code: 25 s. */
const CUT_OFF_MS = 30_000
const MOST_BYTES = 64 * 1024 * 1024
/** What an open socket that is being closed costs, besides what it has to write. */
const BYTES_OF_SOCKET = 4096

/** Closes sockets whose clients do not read. Past the bound the ones that were closed first are cut off early. */
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
