// Writes messages to a socket, and detects whether its client reads them.
import type { Duplex } from 'node:stream'
import type { WebSocket } from 'ws'
import type { Answer, Sink } from '../../delivery/answer.ts'
import { framesOf, headOf } from './frames.ts'
import type { Stalled, StalledSockets } from './stalled-sockets.ts'

/** The maximum number of bytes per socket that wait in this process because the kernel has not accepted them yet. */
const MOST_WAITING_BYTES = 4 * 1024 * 1024

export interface SocketWriterOptions {
  /** Called to close the socket of a client that lags too far behind. */
  onFull(): void
  /** The subscriptions of this socket. */
  subscriptions: ReadonlyMap<string, unknown>
  stalled: StalledSockets
  viewerId(): string
}

/**
 * Writes to one client. Drops data for a closing socket. A class is used instead of closures because a delivery
 * visits thousands of sockets, and the fields of an instance are adjacent in memory.
 */
export class SocketWriter implements Stalled {
  readonly #socket: WebSocket
  readonly #transport: Duplex
  readonly #onFull: () => void
  readonly #progress: PingProgress
  readonly #listeners = new Set<() => void>()
  readonly #stalled: StalledSockets
  readonly viewerId: () => string

  constructor(socket: WebSocket, transport: Duplex, options: SocketWriterOptions) {
    const { onFull, subscriptions } = options
    this.#socket = socket
    this.#transport = transport
    this.#onFull = onFull
    this.#progress = new PingProgress(socket, subscriptions)
    this.#stalled = options.stalled
    this.viewerId = options.viewerId
    const tellReady = () => {
      this.#stalled.delete(this)
      for (const listener of [...this.#listeners]) listener()
    }
    transport.on('drain', tellReady)
    socket.once('close', tellReady)
  }

  /** Sends a text after everything that was sent before. Calls `onTaken` when the kernel has accepted the text. */
  send(text: string, onTaken: () => void): void {
    if (!this.#takesMore()) {
      onTaken()
      return
    }
    this.#socket.send(text, onTaken)
    this.#noteStall()
    this.#progress.sent(1, Buffer.byteLength(text))
  }

  /** Returns a sink for the answers of an operation. `id`: the client's id of the operation. */
  sinkOf(id: string): Sink {
    return new OperationSink(this, headOf(id))
  }

  /** Closes the socket of a client that lags too far behind, with a code after which clients reconnect. */
  readonly giveUp = (): void => this.#onFull()

  /** Sends answers to the operation with this head. */
  answer(answers: readonly Answer[], head: string): void {
    if (!this.#takesMore()) return
    const frames = framesOf(answers, head)
    // Bypasses `socket.send`, which would write each text separately. Without compression, frames are sent in the
    // order of the writes.
    this.#transport.write(frames, 'latin1')
    this.#noteStall()
    this.#progress.sent(answers.length, frames.length)
  }

  /** See `Sink`. */
  get isBusy(): boolean {
    return this.#transport.writableNeedDrain && this.#isOpen
  }

  /** See `Sink`. */
  whenReady(listener: () => void): () => void {
    this.#listeners.add(listener)
    return () => void this.#listeners.delete(listener)
  }

  /** See `Stalled`. */
  waitingBytes(): number {
    return this.#socket.bufferedAmount
  }

  #noteStall(): void {
    if (this.#transport.writableNeedDrain) this.#stalled.add(this)
  }

  get #isOpen(): boolean {
    return this.#socket.readyState === this.#socket.OPEN
  }

  /** Returns false if the socket is closing or must be closed now. */
  #takesMore(): boolean {
    if (!this.#isOpen) return false
    const isFull = this.#transport.writableNeedDrain && this.#socket.bufferedAmount > MOST_WAITING_BYTES
    if (!isFull && !this.#progress.isOverdue) return true
    this.#onFull()
    return this.#isOpen
  }
}

class OperationSink implements Sink {
  readonly #writer: SocketWriter
  readonly #head: string

  constructor(writer: SocketWriter, head: string) {
    this.#writer = writer
    this.#head = head
  }

  send(answers: readonly Answer[]): void {
    this.#writer.answer(answers, this.#head)
  }

  isBusy(): boolean {
    return this.#writer.isBusy
  }

  whenReady(listener: () => void): () => void {
    return this.#writer.whenReady(listener)
  }

  giveUp(): void {
    this.#writer.giveUp()
  }
}

/** The number of messages after which a ping is sent. */
const TEXTS_A_PING = 250
const BYTES_A_PING = 1024 * 1024
/** The maximum number of messages per subscription, and of bytes, that may be sent while a ping is unanswered. */
const MOST_TEXTS = 1000
const MOST_BYTES = 4 * 1024 * 1024
const PATIENCE_MS = 4000

/**
 * Detects whether a client reads. Data that the kernel has accepted may still be in buffers of several megabytes. A
 * client, however, answers a ping only after reading everything that was sent before it. At most one ping is in
 * flight.
 */
export class PingProgress {
  readonly #socket: WebSocket
  readonly #subscriptions: ReadonlyMap<string, unknown>
  #isAsked = false
  #askedAt = 0
  /**
   * The number of messages since the last ping. The counter starts at a random number, so that subscribers of the
   * same events are not all pinged at the same event.
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

  /** Whether the client has left a ping unanswered for too long, and has been sent too much since that ping. */
  get isOverdue(): boolean {
    if (!this.#isAsked) return false
    const most = MOST_TEXTS * Math.max(this.#subscriptions.size, 1)
    return (this.#texts >= most || this.#bytes >= MOST_BYTES) && performance.now() - this.#askedAt > PATIENCE_MS
  }
}
