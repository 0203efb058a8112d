import type { Duplex } from 'node:stream'
import type { WebSocket } from 'ws'
import type { Answer } from '../streams/answer.ts'
import type { Sink } from '../streams/sink.ts'
import { framesOf, headOf } from './frames.ts'
import { PingProgress } from './ping-progress.ts'
import type { Stalled, StalledSockets } from './stalled-sockets.ts'
import type { WriteSchedule } from './write-schedule.ts'

/** Bytes that may wait for the system. */
const MOST_WAITING_BYTES = 4 * 1024 * 1024

export interface SocketWriterOptions {
  schedule: WriteSchedule
  /** Closes the socket of a client that is too far behind. */
  onFull(): void
  /** Those that are answered here. */
  subscriptions: ReadonlyMap<string, unknown>
  stalled: StalledSockets
  viewerId(): string
}

/**
 * The way out to one client. What is sent in one tick, or one slice, leaves in one write: `transport` holds it back until then. What a
 * closing socket is given is dropped. A class and no closure, since a round of writing comes by each of thousands: what it touches of
 * one lies together.
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

  /** Sends a text, after everything that was sent before it. `onTaken` is called when the system has taken it. */
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

  /** For the answers of one operation, by the client's id of it. */
  sinkOf(id: string): Sink {
    return new OperationSink(this, headOf(id))
  }

  /** Writes at once what was sent in this tick: for who closes the socket next. */
  readonly flush = (): void => {
    if (!this.#isCorked) return
    this.#isCorked = false
    this.#transport.uncork()
  }

  /** The client is too far behind: closes the socket in a way that has it come back. */
  readonly giveUp = (): void => this.#onFull()

  /** Sends answers to the operation of this head. */
  answer(answers: readonly Answer[], head: string): void {
    if (!this.#takesMore()) return
    const frames = framesOf(answers, head)
    // For one subscription alone there is nothing else that could leave in the same write.
    if (this.#subscriptions.size > 1) this.#cork()
    // Past `socket.send`, which would write each text by itself: nothing is compressed, so the order is that of the writes.
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

  /** False for a socket that closes, or has to now. */
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
