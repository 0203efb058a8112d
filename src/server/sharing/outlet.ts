import type { Duplex } from 'node:stream'
import type { WebSocket } from 'ws'

/** The way out to one client, bounded. */
export interface Outlet {
  /** Sends a text; what is sent in one tick leaves in one write. What a closing socket is given is dropped. */
  send(text: string, onTaken?: () => void): void
  /** How many texts the system has not taken yet. */
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

/** Of this process, to be let go at the end of the tick. */
const held: Duplex[] = []

function releaseAll(): void {
  for (const transport of held.splice(0)) transport.uncork()
}

/** Whatever is written in this tick, in all that follows without waiting for the outside, leaves in one write. */
function holdForThisTick(transport: Duplex): void {
  if (transport.writableCorked > 0) return
  if (held.length === 0) process.nextTick(releaseAll)
  held.push(transport)
  transport.cork()
}

/** The outlet of a socket over `transport`. `onFull` is told when more waits than is waited for. */
export function createOutlet(socket: WebSocket, transport: Duplex, onFull: () => void): Outlet {
  let waiting = 0
  let onDrained: (() => void)[] = []

  function tellDrained(): void {
    const listeners = onDrained
    onDrained = []
    for (const listener of listeners) listener()
  }

  function taken(): void {
    waiting -= 1
    if (waiting <= FEW_WAITING_TEXTS && onDrained.length > 0) tellDrained()
  }
  socket.once('close', tellDrained)

  const isOpen = () => socket.readyState === socket.OPEN
  return {
    send(text, onTaken) {
      if (!isOpen()) return onTaken?.()
      if (waiting >= MOST_WAITING_TEXTS || socket.bufferedAmount > MOST_WAITING_BYTES) {
        onFull()
        return onTaken?.()
      }
      waiting += 1
      holdForThisTick(transport)
      if (onTaken === undefined) socket.send(text, taken)
      else
        socket.send(text, () => {
          taken()
          onTaken()
        })
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
