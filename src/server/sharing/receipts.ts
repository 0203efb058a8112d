import type { WebSocket } from 'ws'

/** Learns what a client has really read: what lies between may take megabytes for one that reads nothing. */
export interface Receipts {
  /** So many texts more have been handed over. */
  sent(texts: number, bytes: number): void
  /** The client has not read for a while, and much has been sent to it since. */
  isOverdue(): boolean
}

/** What is sent before the client is asked again. */
const TEXTS_A_RECEIPT = 250
const BYTES_A_RECEIPT = 1024 * 1024
const PATIENCE_MS = 4000

/** Every client answers a ping when it has read what came before it. One is on its way at a time. */
export function createReceipts(socket: WebSocket, most: { texts: number; bytes: number }): Receipts {
  let askedAt: number | null = null
  /** Since the client was asked last. */
  let texts = 0
  let bytes = 0

  socket.on('pong', () => {
    askedAt = null
  })

  return {
    sent(moreTexts, moreBytes) {
      texts += moreTexts
      bytes += moreBytes
      if (askedAt !== null || (texts < TEXTS_A_RECEIPT && bytes < BYTES_A_RECEIPT)) return
      askedAt = performance.now()
      texts = 0
      bytes = 0
      socket.ping()
    },
    isOverdue() {
      if (askedAt === null || (texts < most.texts && bytes < most.bytes)) return false
      return performance.now() - askedAt > PATIENCE_MS
    },
  }
}
