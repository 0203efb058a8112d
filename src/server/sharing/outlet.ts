import type { Duplex } from 'node:stream'
import type { WebSocket } from 'ws'
import { frameOf } from './frame.ts'

/** The way out to one client, bounded. What a closing socket is given is dropped. */
export interface Outlet {
  /** Sends a text, after everything that was sent before it. */
  send(text: string, onTaken?: () => void): void
  /** The same for a text in two pieces, the second shared with others. What is sent in one tick leaves in one write. */
  sendPieces(first: Buffer, second: Buffer): void
  /** About how many texts the system has not taken yet; 0 where it keeps up. */
  waiting(): number
  isOpen(): boolean
  /** Resolves once few texts wait, or the socket is closed. */
  drained(): Promise<void>
  /** The client is too far behind: closes the socket in a way that has it come back. */
  giveUp(): void
}

const MOST_WAITING_TEXTS = 1000
const MOST_WAITING_BYTES = 4 * 1024 * 1024
const FEW_WAITING_TEXTS = 64

/** Those of this process that hold frames, to be written at the end of the tick. */
let holding: (() => void)[] = []

/** The end of the tick: after all that follows from it without waiting for the outside. */
function atEndOfTick(write: () => void): void {
  if (holding.length === 0) process.nextTick(writeAll)
  holding.push(write)
}

function writeAll(): void {
  const writes = holding
  holding = []
  for (const write of writes) write()
}

/**
 * The outlet of a socket over `transport`. `onFull` is told when more waits than is waited for. Frames of pieces go past
 * the socket to its transport: without compression and fragments, which the server does not use, nothing comes between.
 */
export function createOutlet(socket: WebSocket, transport: Duplex, onFull: () => void): Outlet {
  let waiting = 0
  let frames: Buffer[] = []
  let onDrained: (() => void)[] = []

  const isOpen = () => socket.readyState === socket.OPEN

  function taken(count: number): void {
    waiting -= count
    if (waiting <= FEW_WAITING_TEXTS) tellDrained()
  }

  function tellDrained(): void {
    const listeners = onDrained
    onDrained = []
    for (const listener of listeners) listener()
  }
  socket.once('close', tellDrained)

  function writeFrames(): void {
    const held = frames
    const [first] = held
    frames = []
    if (first === undefined || !isOpen()) return
    const count = held.length
    const bytes = count === 1 ? first : Buffer.concat(held)
    // Where nothing lies before it, the system takes it at once.
    if (transport.writableLength === 0) return void transport.write(bytes)
    waiting += count
    transport.write(bytes, () => taken(count))
  }

  function isFull(): boolean {
    if (waiting + frames.length < MOST_WAITING_TEXTS && socket.bufferedAmount <= MOST_WAITING_BYTES) return false
    onFull()
    return true
  }

  return {
    send(text, onTaken) {
      if (!isOpen() || isFull()) return onTaken?.()
      writeFrames()
      waiting += 1
      socket.send(text, () => {
        taken(1)
        onTaken?.()
      })
    },
    sendPieces(first, second) {
      if (!isOpen() || isFull()) return
      if (frames.length === 0) atEndOfTick(writeFrames)
      frames.push(frameOf(first, second))
    },
    waiting: () => waiting,
    isOpen,
    drained() {
      if (waiting <= FEW_WAITING_TEXTS || !isOpen()) return Promise.resolve()
      return new Promise((resolve) => onDrained.push(resolve))
    },
    giveUp: onFull,
  }
}
