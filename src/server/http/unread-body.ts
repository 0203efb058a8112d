import type { IncomingMessage, ServerResponse } from 'node:http'

/** How long the rest of a body is read and dropped, so that a client that is still sending can read its response. */
const LINGER_MS = 3000
/** The rest of a body of up to this size arrives with the headers or just after them, so the connection is kept. */
const SMALL_BYTES = 64 * 1024

/**
 * Closes the connection of a request that is answered before its body is complete. The response contains
 * `Connection: close`, our side is half-closed after it, and further data is dropped until the client ends,
 * at most for `lingerMs`. Closing the connection at once would reset it, and many clients would lose the
 * response; keeping it would let each unfinished body hold a connection. If the body is small, the connection
 * is closed only if the rest does not arrive within that time.
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
    // An unread rest would block the next request on the connection.
    request._dump?.()
  }

  function announceEnd(): void {
    response.setHeader('connection', 'close')
    // Node calls this once the response is sent, and would destroy the connection then.
    socket.destroySoon = () => {
      if (request.complete || socket.destroyed) socket.destroy()
      else socket.end()
    }
    request.once('end', () => response.writableFinished && socket.destroy())
  }
}

/** Refuses a request whose body is not complete within a time. Most bodies are; the handler of the request sets any other limits. */
export function limitBodyTime(request: IncomingMessage, response: ServerResponse, longestMs: number): void {
  const { headers, socket } = request
  if (headers['transfer-encoding'] === undefined && !(Number(headers['content-length'] ?? 0) > 0)) return
  const timer = setTimeout(() => {
    if (response.headersSent) return void socket.destroy()
    response.writeHead(408, { connection: 'close' }).end()
  }, longestMs)
  for (const end of ['end', 'close']) request.once(end, () => clearTimeout(timer))
}
