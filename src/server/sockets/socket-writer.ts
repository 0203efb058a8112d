import type { Duplex } from 'node:stream'
import type { WebSocket } from 'ws'
import type { Answer } from '../streams/answer.ts'
import type { Sink } from '../streams/sink.ts'
import { framesOf, headOf } from './frames.ts'
import { createPingProgress } from './ping-progress.ts'
import type { WriteSchedule } from './write-schedule.ts'

/** The way out to one client. What is sent in one tick leaves in one write; what a closing socket is given is dropped. */
export interface SocketWriter {
  /** Sends a text, after everything that was sent before it. `onTaken` is called when the system has taken it. */
  send(text: string, onTaken: () => void): void
  /** For the answers of one operation, by the client's id of it. */
  sinkOf(id: string): Sink
  /** Writes at once what was sent in this tick: for who closes the socket next. */
  flush(): void
  /** The client is too far behind: closes the socket in a way that has it come back. */
  giveUp(): void
}

/** Bytes that may wait for the system. */
const MOST_WAITING_BYTES = 4 * 1024 * 1024

export interface SocketWriterOptions {
  schedule: WriteSchedule
  /** Closes the socket of a client that is too far behind. */
  onFull(): void
  /** How many subscriptions are answered here. */
  subscriptions(): number
}

/** The writer of a socket over `transport`, which holds back what is sent until all of a tick or a slice can leave together. */
export function createSocketWriter(
  socket: WebSocket,
  transport: Duplex,
  { schedule, onFull, subscriptions }: SocketWriterOptions,
): SocketWriter {
  const listeners = new Set<() => void>()
  const progress = createPingProgress(socket, subscriptions)
  let isCorked = false

  const isOpen = () => socket.readyState === socket.OPEN

  function cork(): void {
    if (isCorked) return
    isCorked = true
    transport.cork()
    schedule.atEnd(uncork)
  }

  function uncork(): void {
    if (!isCorked) return
    isCorked = false
    transport.uncork()
  }

  function isFull(): boolean {
    return socket.bufferedAmount > MOST_WAITING_BYTES || progress.isOverdue()
  }

  function write(text: string, onTaken?: () => void): void {
    cork()
    socket.send(text, onTaken)
    progress.sent(1, text.length)
  }

  function tellReady(): void {
    for (const listener of [...listeners]) listener()
  }

  transport.on('drain', tellReady)
  socket.once('close', tellReady)

  return {
    send(text, onTaken) {
      if (isOpen() && isFull()) onFull()
      if (isOpen()) write(text, onTaken)
      else onTaken()
    },
    sinkOf(id) {
      const head = headOf(id)
      return {
        send(answers: readonly Answer[]) {
          if (isOpen() && isFull()) onFull()
          if (!isOpen()) return
          const frames = framesOf(answers, head)
          // For one subscription alone there is nothing else that could leave in the same write.
          if (subscriptions() > 1) cork()
          // Past `socket.send`, which would write each text by itself: nothing is compressed, so the order is that of the writes.
          transport.write(frames, 'latin1')
          progress.sent(answers.length, frames.length)
        },
        isBusy: () => transport.writableNeedDrain && isOpen(),
        whenReady(listener) {
          listeners.add(listener)
          return () => void listeners.delete(listener)
        },
      }
    },
    flush: uncork,
    giveUp: onFull,
  }
}
