import type { Duplex } from 'node:stream'
import type { WebSocket } from 'ws'
import type { Answer } from '../streams/answer.ts'
import type { Sink } from '../streams/sink.ts'
import { framesOf, headOf } from './frames.ts'
import { PingProgress } from './ping-progress.ts'
import type { Stalled, StalledSockets } from './stalled-sockets.ts'
import type { WriteSchedule } from './write-schedule.ts'

/** The maximum number of bytes that wait to be accepted by the kernel. */
const MOST_WAITING_BYTES = 4 * 1024 * 1024

export interface SocketWriterOptions {
  schedule: WriteSchedule
  /** Closes the socket of a client that lags too far behind. */
  onFull(): void
  /** The subscriptions of this socket. */
  subscriptions: ReadonlyMap<string, unknown>
  stalled: StalledSockets
  viewerId(): string
}

/**
 * Writes to one client. Everything sent in one tick or slice leaves in one write: `transport` is corked until
 * then. Data for a closing socket is dropped. This is a class, not a closure, because a round of writing
 * visits thousands of sockets: the fields of one are adjacent in memory.
 */
export class SocketWriter implements Stalled {
  readonly #socket: WebSocket
  readonly #transport: Duplex
  readonly #schedule: WriteSchedule
  readonly #onFull: () => void
  readonly #subscriptions: ReadonlyMap<string, unknown>
  readonly #progress: PingProgress
  readonly #listeners = new Set<() => void>()
  readonly #stalled: StalledSockets
  readonly viewerId: () => string
  #isCorked = false

  constructor(socket: WebSocket, transport: Duplex, options: SocketWriterOptions) {
    const { schedule, onFull, subscriptions } = options
    this.#socket = socket
    this.#transport = transport
    this.#schedule = schedule
    this.#onFull = onFull
    this.#subscriptions = subscriptions
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

  /** Sends a text after everything sent before. `onTaken` is called when the kernel has accepted it. */
  send(text: string, onTaken: () => void): void {
    if (!this.#takesMore()) {
      onTaken()
      return
    }
    this.#cork()
    this.#socket.send(text, onTaken)
    this.#noteStall()
    this.#progress.sent(1, Buffer.byteLength(text))
  }

  /** Returns a sink for the answers of one operation, by the client's id. */
  sinkOf(id: string): Sink {
    return new OperationSink(this, headOf(id))
  }

  /** Writes everything sent in this tick at once: call it before closing the socket. */
  readonly flush = (): void => {
    if (!this.#isCorked) return
    this.#isCorked = false
    this.#transport.uncork()
  }

  /** Closes the socket of a client that lags too far behind, with a code after which clients reconnect. */
  readonly giveUp = (): void => this.#onFull()

  /** Sends answers to the operation with this head. */
  answer(answers: readonly Answer[], head: string): void {
    if (!this.#takesMore()) return
    const frames = framesOf(answers, head)
    // With a single subscription, nothing else could share the write.
    if (this.#subscriptions.size > 1) this.#cork()
    // Bypasses `socket.send`, which would write each text separately. Without compression, the order is that
    // of the writes.
    this.#transport.write(frames, 'latin1')
    this.#noteStall()
    this.#progress.sent(answers.length, frames.length)
  }

  /** See Sink. */
  get isBusy(): boolean {
    return this.#transport.writableNeedDrain && this.#isOpen
  }

  /** See Sink. */
  whenReady(listener: () => void): () => void {
    this.#listeners.add(listener)
    return () => void this.#listeners.delete(listener)
  }

  /** See Stalled. */
  waitingBytes(): number {
    return this.#socket.bufferedAmount
  }

  #noteStall(): void {
    if (this.#transport.writableNeedDrain) this.#stalled.add(this)
  }

  get #isOpen(): boolean {
    return this.#socket.readyState === this.#socket.OPEN
  }

  /** Returns false if the socket is closing, or must be closed now. */
  #takesMore(): boolean {
    if (!this.#isOpen) return false
    const isFull = this.#transport.writableNeedDrain && this.#socket.bufferedAmount > MOST_WAITING_BYTES
    if (!isFull && !this.#progress.isOverdue) return true
    this.#onFull()
    return this.#isOpen
  }

  #cork(): void {
    if (this.#isCorked) return
    this.#isCorked = true
    this.#transport.cork()
    this.#schedule.atEnd(this.flush)
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
