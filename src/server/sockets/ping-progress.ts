import type { WebSocket } from 'ws'

/** A ping is sent after this much. */
const TEXTS_A_PING = 250
const BYTES_A_PING = 1024 * 1024
/** The maximum that may be sent after an unanswered ping: messages per subscription, and bytes. */
const MOST_TEXTS = 1000
const MOST_BYTES = 4 * 1024 * 1024
const PATIENCE_MS = 4000

/**
 * Detects whether a client reads. Data that the kernel has accepted may still be in buffers of several
 * megabytes. A client answers a ping only after reading everything sent before it. At most one ping is in
 * flight.
 */
export class PingProgress {
  readonly #socket: WebSocket
  readonly #subscriptions: ReadonlyMap<string, unknown>
  #isAsked = false
  #askedAt = 0
  /**
   * Messages since the last ping. It starts at a random number, so that subscribers of the same events are
   * not all pinged at the same event.
   */
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

  /** Whether the client has exceeded both the amount and the time allowed after an unanswered ping. */
  get isOverdue(): boolean {
    if (!this.#isAsked) return false
    const most = MOST_TEXTS * Math.max(this.#subscriptions.size, 1)
    return (this.#texts >= most || this.#bytes >= MOST_BYTES) && performance.now() - this.#askedAt > PATIENCE_MS
  }
}
