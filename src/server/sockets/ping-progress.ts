import type { WebSocket } from 'ws'

/** Whether a client reads: what the system has taken for it may still wait, in buffers that hold megabytes for who reads nothing. */
export interface PingProgress {
  sent(texts: number, bytes: number): void
  /** Whether more was sent since an unanswered ping than a client may have waiting, and it has had its time. */
  isOverdue(): boolean
}

/** After so much the client is asked again. */
const TEXTS_A_PING = 250
const BYTES_A_PING = 1024 * 1024
/** What may lie after an unanswered ping: texts for each subscription, and bytes. */
const MOST_TEXTS = 1000
const MOST_BYTES = 4 * 1024 * 1024
const PATIENCE_MS = 4000

/** Every client answers a ping when it has read what came before it. One is on its way at a time. */
export function createPingProgress(socket: WebSocket, subscriptions: () => number): PingProgress {
  let askedAt: number | null = null
  /** Since the client was asked last. The first time it is one of several: those who are told the same are not all asked at the same event. */
  let texts = Math.floor(Math.random() * TEXTS_A_PING)
  let bytes = 0

  socket.on('pong', () => {
    askedAt = null
  })

  return {
    sent(moreTexts, moreBytes) {
      texts += moreTexts
      bytes += moreBytes
      if (askedAt !== null || (texts < TEXTS_A_PING && bytes < BYTES_A_PING)) return
      askedAt = performance.now()
      texts = 0
      bytes = 0
      socket.ping()
    },
    isOverdue() {
      if (askedAt === null || (texts < MOST_TEXTS * Math.max(subscriptions(), 1) && bytes < MOST_BYTES)) return false
      return performance.now() - askedAt > PATIENCE_MS
    },
  }
}
