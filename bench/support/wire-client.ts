import { createHash, randomBytes, randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import type { Subscribing } from './fanout-server.ts'

/** A graphql-transport-ws client that only counts messages, so that thousands of clients cost less than the measured server. */
export interface WireClient {
  /** The number of messages, including handshakes and first results. */
  received(): number
  /** Called with the bytes of each message. */
  onMessage: ((payload: Buffer) => void) | null
  socket: Socket
}

const OPCODE = 0x0f
const TEXT = 1
const PING = 9

/**
 * Opens a socket and starts its subscriptions. Resolves when each has its first result. Operation ids count from `firstId`, as
 * in some clients; without it they are UUIDs, as in others.
 */
export async function openWireClient(subscribing: Subscribing[], firstId?: number): Promise<WireClient> {
  const [{ url, authorization }] = subscribing as [Subscribing]
  const { hostname, port, pathname } = new URL(url)
  const socket = connect(Number(port), hostname).setNoDelay()
  await once(socket, 'connect')
  await upgrade(socket, pathname)
  let received = 0
  let wanted: { count: number; resolve: () => void } | null = null
  const client: WireClient = { received: () => received, onMessage: null, socket }
  readFrames(socket, (opcode, payload) => {
    if (opcode === PING) socket.write(Buffer.from([0x8a, 0x80, 0, 0, 0, 0]))
    if (opcode !== TEXT) return
    received += 1
    client.onMessage?.(payload())
    if (wanted !== null && received >= wanted.count) wanted.resolve()
  })
  const until = (count: number) =>
    new Promise<void>((resolve) => {
      wanted = { count, resolve }
    })
  const acknowledged = until(1)
  send(socket, { type: 'connection_init', payload: authorization === null ? {} : { authorization } })
  await acknowledged
  const begun = until(1 + subscribing.length)
  for (const [index, { query, variables }] of subscribing.entries()) {
    const id = firstId === undefined ? randomUUID() : String(firstId + index)
    send(socket, { id, type: 'subscribe', payload: { query, variables } })
  }
  await begun
  wanted = null
  return client
}

async function upgrade(socket: Socket, path: string): Promise<void> {
  const key = randomBytes(16).toString('base64')
  const lines = [
    `GET ${path} HTTP/1.1`,
    'Host: bench',
    'Upgrade: websocket',
    'Connection: Upgrade',
    `Sec-WebSocket-Key: ${key}`,
    'Sec-WebSocket-Version: 13',
    'Sec-WebSocket-Protocol: graphql-transport-ws',
  ]
  socket.write(`${lines.join('\r\n')}\r\n\r\n`)
  const [answer] = (await once(socket, 'data')) as [Buffer]
  const accept = createHash('sha1').update(`${key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`).digest('base64')
  if (!answer.toString('latin1').includes(accept)) throw new Error(`no WebSocket: ${answer}`)
}

/** Returns a frame of a client, masked with zeros. */
function send(socket: Socket, message: object): void {
  const payload = Buffer.from(JSON.stringify(message))
  const head =
    payload.length < 126
      ? Buffer.from([0x81, 0x80 | payload.length])
      : Buffer.from([0x81, 0xfe, payload.length >>> 8, payload.length & 0xff])
  socket.write(Buffer.concat([head, Buffer.alloc(4), payload]))
}

function readFrames(socket: Socket, onFrame: (opcode: number, payload: () => Buffer) => void): void {
  let rest: Buffer = Buffer.alloc(0)
  socket.on('data', (data: Buffer) => {
    const bytes = rest.length === 0 ? data : Buffer.concat([rest, data])
    let at = 0
    for (;;) {
      const frame = frameAt(bytes, at)
      if (frame === null) break
      onFrame(bytes[at]! & OPCODE, () => bytes.subarray(frame.start, frame.end))
      at = frame.end
    }
    rest = bytes.subarray(at)
  })
}

/** Returns the position of the payload of the frame at an offset; null if the frame is incomplete. */
function frameAt(bytes: Buffer, at: number): { start: number; end: number } | null {
  const had = bytes.length - at
  if (had < 2) return null
  const short = bytes[at + 1]!
  const start = at + (short < 126 ? 2 : short === 126 ? 4 : 10)
  if (bytes.length < start) return null
  const length =
    short < 126 ? short : short === 126 ? bytes.readUInt16BE(at + 2) : Number(bytes.readBigUInt64BE(at + 2))
  return bytes.length < start + length ? null : { start, end: start + length }
}
