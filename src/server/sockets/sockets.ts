import { randomUUID } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import type { Duplex } from 'node:stream'
import { CloseCode, handleProtocols, makeServer } from 'graphql-ws'
import type { Logger } from 'pino'
import type { Registry } from 'prom-client'
import { WebSocket, WebSocketServer } from 'ws'
import type { SignIns } from '../../access/sign-ins.ts'
import type { Viewer } from '../../access/viewer.ts'
import type { MaskError } from '../../graphql/masking.ts'
import { sleep } from '../../lib/async.ts'
import { createCounts } from '../../lib/counts.ts'
import { messageOf, UnauthenticatedError } from '../../lib/errors.ts'
import { decodeUtf8, inexactNumberIn } from '../../lib/exact-json.ts'
import { onBehalfOf } from '../../lib/log-context.ts'
import { counter, OTHER } from '../../lib/metrics.ts'
import { forRequester } from '../../lib/requester-context.ts'
import { askedOriginOf } from '../http/asked-origin.ts'
import { authenticate, bearerOf } from '../http/authentication.ts'
import { sessionCookiesOf } from '../http/cookies.ts'
import { type Graphql, LARGEST_REQUEST_BYTES } from '../http/graphql.ts'
import { LONGEST_OPERATION_ID, pointsOfBytes, type RequestBytes } from '../request-bytes.ts'
import { createKeepAlive } from './keep-alive.ts'
import { createLateCloses } from './late-closes.ts'
import { type Session, socketOperations } from './operations.ts'
import { SocketWriter } from './socket-writer.ts'
import { createStalledSockets } from './stalled-sockets.ts'

export interface SocketsOptions {
  graphql: Graphql
  maskError: MaskError
  signIns: SignIns
  /** Calls `onEnd` when a viewer's token is no longer valid. Returns a function that stops watching. */
  watchViewer(viewer: Viewer, onEnd: () => void): Promise<() => void>
  maxSocketsPerViewer: number
  requestBytes: RequestBytes
  logger: Logger
  metrics: Registry
  /** The interval at which a socket is pinged. A socket that has not answered before the next ping is closed. */
  keepAliveMs?: number | undefined
}

/** Serves GraphQL over WebSocket with the protocol `graphql-transport-ws`. */
export interface Sockets {
  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void
  /** The number of open sockets, not counting those that are closing. */
  count(): number
  /**
   * Accepts no new operations, waits up to `drainMs` for queries and mutations, and closes all sockets with 1001,
   * after which clients reconnect and repeat unanswered operations. Then destroys sockets that did not close.
   */
  close(drainMs: number): Promise<void>
}

const INIT_TIMEOUT_MS = 3000
const KEEP_ALIVE_MS = 12_000
/** The time within which a client must answer a close frame before its socket is destroyed. */
const CLOSE_TIMEOUT_MS = 5000
/**
 * How long a socket stays open after its viewer's token or session has become invalid, so that the errors of its
 * operations are sent.
 */
const ENDED_LINGER_MS = 500
const GOING_AWAY = 1001
const TRY_AGAIN_LATER = 1013
/** The close codes that the metric distinguishes, because a client may send any code. */
const CODES: ReadonlySet<number> = new Set([
  1000,
  GOING_AWAY,
  1002,
  1003,
  1005,
  1006,
  1007,
  1008,
  1009,
  1011,
  TRY_AGAIN_LATER,
  ...Object.values(CloseCode).filter((code) => typeof code === 'number'),
])

export function createSockets(options: SocketsOptions): Sockets {
  const { signIns, watchViewer, maxSocketsPerViewer, requestBytes, logger } = options
  const server = new WebSocketServer({
    noServer: true,
    maxPayload: LARGEST_REQUEST_BYTES,
    perMessageDeflate: false,
    handleProtocols,
  })
  const closes = counter(
    options.metrics,
    'parley_socket_closes_total',
    'WebSockets of this process that were closed, by close code.',
    ['code'],
  )
  const socketsOfViewer = createCounts()
  const lateCloses = createLateCloses()
  const stalled = createStalledSockets()
  const silent = new WeakMap<WebSocket, () => void>()
  const keepAlive = createKeepAlive(options.keepAliveMs ?? KEEP_ALIVE_MS, (socket) => silent.get(socket)?.())

  /** Authenticates the client and counts its socket. If this returns false, graphql-ws closes the socket with 4403. */
  async function connect(connection: Connection, parameters: Record<string, unknown> = {}): Promise<boolean> {
    const { socket, session, cookie, address } = connection
    const bearer = bearerOf(parameters['authorization'] ?? parameters['Authorization'] ?? connection.authorization)
    try {
      const viewer = await authenticate(signIns, { bearer, cookie, address })
      const key = `${viewer.scope} ${viewer.id}`
      const leave = await watchViewer(viewer, () => {
        session.ended = true
        const closing = setTimeout(() => shut(socket, CloseCode.Forbidden, 'Forbidden'), ENDED_LINGER_MS).unref()
        connection.onClosed(() => clearTimeout(closing))
      })
      connection.onClosed(leave)
      if (socket.readyState !== socket.OPEN) return true
      connection.onClosed(() => void socketsOfViewer.add(key, -1))
      if (socketsOfViewer.add(key, 1) > maxSocketsPerViewer)
        shut(socket, TRY_AGAIN_LATER, 'Too many sockets for one viewer')
      session.viewer = viewer
      return true
    } catch (error) {
      if (error instanceof UnauthenticatedError) return false
      logger.warn({ error: messageOf(error) }, 'could not authenticate a socket')
      shut(socket, TRY_AGAIN_LATER, 'Try again later')
      return true
    }
  }

  const operations = socketOperations(options.graphql, options.maskError)
  const protocol = makeServer<Record<string, unknown>, Connection>({
    connectionInitWaitTimeout: INIT_TIMEOUT_MS,
    onConnect: async ({ extra, connectionParams }) => connect(extra, connectionParams),
    ...operations.hooks,
  })

  function opened(socket: WebSocket, request: IncomingMessage, transport: Duplex): void {
    const subscriptions: Session['subscriptions'] = new Map()
    let end: (code: number, reason: string) => void = () => {}
    const closeLate = (reason: string) => {
      lateCloses.close(socket, TRY_AGAIN_LATER, reason)
      // The socket's operations are ended now, because it may take 30 s until the client receives the close frame.
      end(TRY_AGAIN_LATER, reason)
    }
    const writer = new SocketWriter(socket, transport, {
      onFull: () => closeLate('The client lags too far behind: resume by cursor'),
      subscriptions,
      stalled,
      viewerId: () => connection.session.viewer?.id ?? '',
    })
    const connection = createConnection(socket, request, { subscriptions, writer })
    silent.set(socket, () => closeLate('The client did not answer a ping: resume by cursor'))
    keepAlive.watch(socket)
    // After an invalid or oversized frame, ws closes the socket with the correct code.
    socket.on('error', (error) => logger.debug({ error: messageOf(error) }, 'a socket reported an error'))
    const closed = protocol.opened(
      portOf(socket, { writer, session: connection.session, requestBytes, logger }),
      connection,
    )
    end = (code, reason) => {
      end = () => {}
      Promise.resolve(closed(code, reason)).catch((error) =>
        logger.warn({ error: messageOf(error) }, 'could not end the operations of a closed socket'),
      )
    }
    socket.once('close', (code, reason) => {
      closes.inc({ code: CODES.has(code) ? String(code) : OTHER })
      connection.close()
      end(code, String(reason))
    })
  }

  return {
    upgrade(request, socket, head) {
      server.handleUpgrade(request, socket, head, (client) => opened(client, request, socket))
    },
    count: () => [...server.clients].filter(({ readyState }) => readyState === WebSocket.OPEN).length,
    async close(drainMs) {
      keepAlive.stop()
      await operations.drain(drainMs)
      const sockets = [...server.clients]
      const allClosed = Promise.all(sockets.map((socket) => new Promise((resolve) => socket.once('close', resolve))))
      for (const socket of sockets) shut(socket, GOING_AWAY, 'Going away')
      await Promise.race([allClosed, sleep(CLOSE_TIMEOUT_MS)])
      for (const socket of server.clients) socket.terminate()
      server.close()
    },
  }
}

/** A socket and the functions that clean up after it. */
interface Connection {
  socket: WebSocket
  /** The Authorization header of the upgrade request. */
  authorization: string | undefined
  /**
   * The secret in the session cookie if the request comes from a page of an allowed origin; null if there is no
   * cookie, or more than one.
   */
  cookie: string | null
  /** The client's IP address. */
  address: string | undefined
  session: Session
  onClosed(cleanUp: () => void): void
}

function createConnection(
  socket: WebSocket,
  { headers, socket: { remoteAddress: address } }: IncomingMessage,
  own: Pick<Session, 'subscriptions' | 'writer'>,
): Connection & { close(): void } {
  const cleanUps: (() => void)[] = []
  const cookies = sessionCookiesOf(headers)
  let closed = false
  const end = new AbortController()
  const session: Session = {
    viewer: null,
    ended: false,
    running: new Map(),
    inexactNumbers: new Map(),
    receivedBytes: 0,
    ...own,
    askedOrigin: askedOriginOf(headers),
    wasRefused: createSlowing(socket),
    refuseId: () =>
      shut(socket, CloseCode.BadRequest, `An operation id has at most ${LONGEST_OPERATION_ID} characters`),
    closed: end.signal,
  }
  return {
    socket,
    authorization: headers.authorization,
    // The server has already refused requests from other origins.
    cookie: headers.origin !== undefined && cookies.length === 1 ? (cookies[0] ?? null) : null,
    address,
    session,
    onClosed(cleanUp) {
      if (closed) cleanUp()
      else cleanUps.push(cleanUp)
    },
    close() {
      closed = true
      end.abort()
      for (const cleanUp of cleanUps.splice(0)) cleanUp()
    },
  }
}

/** Sends a close frame, and destroys the socket if the client does not answer it. */
function shut(socket: WebSocket, code: number, reason: string): void {
  if (socket.readyState !== socket.OPEN) return
  socket.close(code, reason)
  const cutOff = setTimeout(() => socket.terminate(), CLOSE_TIMEOUT_MS).unref()
  socket.once('close', () => clearTimeout(cutOff))
}

/** The maximum size of a frame before the client is authenticated. */
const LARGEST_FIRST_BYTES = 64 * 1024
const FIRST_TOO_LARGE = 'The message is too large before the connection is acknowledged'
/**
 * The maximum size of a ping payload that the pong repeats, in characters of JSON. This is enough for clients that
 * measure latency.
 */
const LONGEST_REPEATED_PAYLOAD = 1024

/** The answer to a ping. It repeats the payload unless the payload is long. A payload may be as large as a frame. */
function pongFor(payload: unknown): string {
  const repeated = JSON.stringify({ type: 'pong', payload })
  return repeated.length <= LONGEST_REPEATED_PAYLOAD ? repeated : JSON.stringify({ type: 'pong' })
}

interface PortParts {
  writer: SocketWriter
  session: Session
  requestBytes: RequestBytes
  logger: Logger
}

/**
 * Adapts a socket to graphql-ws. `send` resolves when the kernel has accepted the data, so that each operation goes
 * only as fast as its client reads.
 */
function portOf(socket: WebSocket, { writer, session, requestBytes, logger }: PortParts) {
  const send = (data: string) => new Promise<void>((resolve) => writer.send(data, resolve))

  /**
   * Counts a frame towards the rate of its viewer. If the viewer exceeds the rate, the server reads the socket
   * slowly.
   */
  function charge(viewer: Viewer, bytes: number): void {
    try {
      requestBytes.charge(viewer, bytes)
    } catch {
      session.wasRefused(pointsOfBytes(bytes))
    }
  }

  return {
    protocol: socket.protocol,
    send,
    onPing: (payload: unknown) => send(pongFor(payload)),
    close(code: number, reason: string) {
      shut(socket, code, reason)
    },
    onMessage(listener: (data: string) => Promise<void>) {
      socket.on('message', (data: Buffer) => {
        if (socket.readyState !== socket.OPEN) return
        const { viewer } = session
        if (viewer !== null) charge(viewer, data.length)
        else if (data.length > LARGEST_FIRST_BYTES) return shut(socket, CloseCode.BadRequest, FIRST_TOO_LARGE)
        session.receivedBytes = data.length
        const text = textOf(data)
        if (text === null) return shut(socket, CloseCode.BadRequest, 'Invalid UTF-8')
        noteInexactNumber(session, text)
        const handle = () => listener(text)
        onBehalfOf({ requestId: randomUUID() }, () =>
          viewer === null ? handle() : forRequester(viewer.id, handle),
        ).catch((error) => {
          logger.error({ error: messageOf(error) }, 'could not handle a socket message')
          shut(socket, CloseCode.InternalServerError, 'Internal server error')
        })
      })
    },
  }
}

/** Returns the text of a message; null if the bytes are not UTF-8, which is possible only in a binary message. */
function textOf(data: Buffer): string | null {
  try {
    return decodeUtf8(data)
  } catch {
    return null
  }
}

/**
 * Records whether JSON.parse changes a number in a message. graphql-ws parses messages itself, so the number is
 * recorded under the message's operation.
 */
function noteInexactNumber(session: Session, text: string): void {
  const number = inexactNumberIn(text)
  if (number === null) return
  try {
    const { id, type } = JSON.parse(text)
    if (type === 'subscribe') session.inexactNumbers.set(id, number)
  } catch {
    // The text is not JSON, so graphql-ws closes the socket.
  }
}

const WINDOW_MS = 1000
/** The maximum number of refusals per second; if it is exceeded, the socket is paused. */
const MOST_REFUSALS = 100

/**
 * Returns a function to call for each operation that was refused because its viewer exceeded the rate. A long
 * request counts as several. After 100 refusals within a second, the server does not read from the socket until the
 * second is over, so that refusals cost the server little. In the meantime, further data stays at the client.
 */
function createSlowing(socket: WebSocket): (count?: number) => void {
  let since = Number.NEGATIVE_INFINITY
  let refused = 0
  return (count = 1) => {
    const now = performance.now()
    if (now - since > WINDOW_MS) {
      since = now
      refused = 0
    }
    const before = refused
    refused += count
    if (before >= MOST_REFUSALS || refused < MOST_REFUSALS) return
    socket.pause()
    setTimeout(() => socket.resume(), since + WINDOW_MS - now).unref()
  }
}
