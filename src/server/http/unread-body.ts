import type { IncomingMessage, ServerResponse } from 'node:http'

/**
 * How long the server reads and drops the rest of a body. In this time, a client that is still sending can receive
 * its response.
 */
const LINGER_MS = 3000
/**
 * The maximum size of a small body. The rest of a small body usually arrives with the headers or shortly
 * afterwards, so the connection can be reused.
 */
const SMALL_BYTES = 64 * 1024

/**
 * Closes the connection of a request that was answered before its body was complete. The response contains
 * `Connection: close`. After the response, the server closes its side of the connection, and drops further data for
 * at most `lingerMs` until the client closes its side. If the server closed the connection immediately, it would be
 * reset, and many clients would lose the response. If the server left it open, each unfinished body would occupy a
 * connection. The connection of a small body is closed only if the rest of the body does not arrive within
 * `lingerMs`.
 */
export function closeUnreadBody(
  request: IncomingMessage & { _dump?(): void },
  response: ServerResponse,
  lingerMs = LINGER_MS,
): void {
  const { headers, socket } = request
  const isChunked = headers['transfer-encoding'] !== undefined
  const size = Number(headers['content-length'] ?? 0)
  if (!isChunked && !(size > 0)) return
  const { writeHead } = response
  response.writeHead = (...given: unknown[]) => {
    response.writeHead = writeHead
    if (!request.complete) dropRest()
    return (writeHead as (...given: unknown[]) => ServerResponse).apply(response, given)
  }

  function dropRest(): void {
    const timer = setTimeout(() => socket.destroy(), lingerMs)
    for (const end of ['end', 'close']) request.once(end, () => clearTimeout(timer))
    if (isChunked || size > SMALL_BYTES) announceEnd()
    // Without this, the unread rest of the body would block the next request on the connection.
    request._dump?.()
  }

  function announceEnd(): void {
    response.setHeader('connection', 'close')
    // Node calls this function once the response is sent. The original function would destroy the connection here.
    socket.destroySoon = () => {
      if (request.complete || socket.destroyed) socket.destroy()
      else socket.end()
    }
    request.once('end', () => response.writableFinished && socket.destroy())
  }
}

/** Refuses a request whose body is not complete in time. The handler of the request may set stricter limits. */
export function limitBodyTime(request: IncomingMessage, response: ServerResponse, longestMs: number): void {
  const { headers, socket } = request
  if (headers['transfer-encoding'] === undefined && !(Number(headers['content-length'] ?? 0) > 0)) return
  const timer = setTimeout(() => {
    if (response.headersSent) return void socket.destroy()
    response.writeHead(408, { connection: 'close' }).end()
  }, longestMs)
  for (const end of ['end', 'close']) request.once(end, () => clearTimeout(timer))
}
