import dgram from 'node:dgram'
import { Socket } from 'node:net'

/** Code in a replay tried to reach the network. */
export class NetworkBlockedError extends Error {
  override readonly name = 'NetworkBlockedError'
}

/** How many blocks are in force. Replays may overlap. */
let blocks = 0
const connect = Socket.prototype.connect
const send = dgram.Socket.prototype.send

/**
 * Makes every new connection of this process fail until `unblock` is called. `attempts` lists the addresses that were tried.
 */
export function blockNetwork(): { attempts: string[]; unblock(): void } {
  const attempts: string[] = []
  const refused = (given: unknown[]): NetworkBlockedError => {
    const where = describe(given.flat())
    attempts.push(where)
    return new NetworkBlockedError(`A replay opens no connections, but something tried to connect to ${where}.`)
  }
  blocks += 1
  // Fails like a connection that the peer refuses. A connection pool that gets the error in another way would wait for the connection.
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

/** Returns where a connection goes, by the arguments of `connect` or `send`. */
function describe([target, host]: unknown[]): string {
  if (typeof target === 'number') return `${typeof host === 'string' ? host : 'localhost'}:${target}`
  if (typeof target !== 'object' || target === null) return String(target)
  const { host: named, port, path } = target as Record<string, unknown>
  return path === undefined ? `${String(named ?? 'localhost')}:${String(port)}` : String(path)
}
