import dgram from 'node:dgram'
import { Socket } from 'node:net'

/** Thrown when code in a replay tries to reach the network. */
export class NetworkBlockedError extends Error {
  override readonly name = 'NetworkBlockedError'
}

/** How many replays block the network now. Replays can overlap. */
let blocks = 0
const connect = Socket.prototype.connect
const send = dgram.Socket.prototype.send

/**
 * Makes every new connection of this process fail until `unblock` is called. `attempts` lists the addresses of these
 * connections.
 */
export function blockNetwork(): { attempts: string[]; unblock(): void } {
  const attempts: string[] = []
  const refused = (given: unknown[]): NetworkBlockedError => {
    const where = describe(given.flat())
    attempts.push(where)
    return new NetworkBlockedError(`A replay opens no connections, but something tried to connect to ${where}.`)
  }
  blocks += 1
  // Fails in the same way as a connection that the peer refuses. With any other kind of error, a connection pool would
  // wait for the connection.
  Socket.prototype.connect = function refuse(this: Socket, ...given: unknown[]) {
    const error = refused(given)
    process.nextTick(() => this.destroy(error))
    return this
  } as typeof connect
  dgram.Socket.prototype.send = ((...given: unknown[]) => {
    throw refused(given)
  }) as unknown as typeof send
  let isOver = false
  return {
    attempts,
    unblock() {
      if (isOver) return
      isOver = true
      blocks -= 1
      if (blocks > 0) return
      Socket.prototype.connect = connect
      dgram.Socket.prototype.send = send
    },
  }
}

/** Returns the target of a connection from the arguments of `connect` or `send`. */
function describe([target, host]: unknown[]): string {
  if (typeof target === 'number') return `${typeof host === 'string' ? host : 'localhost'}:${target}`
  if (typeof target !== 'object' || target === null) return String(target)
  const { host: named, port, path } = target as Record<string, unknown>
  return path === undefined ? `${String(named ?? 'localhost')}:${String(port)}` : String(path)
}
