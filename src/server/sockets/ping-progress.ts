import type { WebSocket } from 'ws'

/** After so much the client is asked again. */
const TEXTS_A_PING = 250
const BYTES_A_PING = 1024 * 1024
/** What may lie after an unanswered ping: texts for each subscription, and bytes. */
const MOST_TEXTS = 1000
const MOST_BYTES = 4 * 1024 * 1024
const PATIENCE_MS = 4000

/**
 * Whether a client reads: what the system has taken for it may still wait, in buffers that hold megabytes for who reads nothing. Every
 * client answers a ping when it has read what came before it. One is on its way at a time.
 */
export class PingProgress {
  readonly #socket: WebSocket
  readonly #subscriptions: ReadonlyMap<string, unknown>
  #isAsked = false
  #askedAt = 0
  /** Since the client was asked last. The first time it is one of several: those who are told the same are not all asked at the same event. */
  #texts = Math.floor(Math.random() * TEXTS_A_PING)
  #bytes = 0

  constructor(socket: WebSocket, subscriptions: ReadonlyMap<string, unknown>) {
    this.#socket = socket
    this.#subscriptions = subscriptions
    socket.on('pong', () => {
      this.#isAsked = false
    })
  }

  sent(texts: number, bytes: number): void {
    this.#texts += texts
    this.#bytes += bytes
    if (this.#isAsked || (this.#texts < TEXTS_A_PING && this.#bytes < BYTES_A_PING)) return
    this.#isAsked = true
    this.#askedAt = performance.now()
    this.#texts = 0
    this.#bytes = 0
    this.#socket.ping()
  }

  /** Whether more was sent since an unanswered ping than a client may have waiting, and it has had its time. */
  get isOverdue(): boolean {
    if (!this.#isAsked) return false
    const most = MOST_TEXTS * Math.max(this.#subscriptions.size, 1)
    return (this.#texts >= most || this.#bytes >= MOST_BYTES) && performance.now() - this.#askedAt > PATIENCE_MS
  }
}
