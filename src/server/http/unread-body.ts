import type { IncomingMessage, ServerResponse } from 'node:http'

/** The rest of a body is read and dropped for this long, so that a client which still sends can read its response. */
const LINGER_MS = 3000
/** A rest as small as this is not worth a connection: it arrives with the head, or just after it. */
const SMALL_BYTES = 64 * 1024

/**
 * Closes the connection of a request that is answered before its body is complete. The response says `Connection: close`, our side
 * of the connection is closed after it, and what the client still sends is dropped until it ends, `lingerMs` later at most. Closed at
 * once, the connection would be reset, and many clients would lose the response; kept, each unfinished body would hold one.
 * Where the body is small, the connection is closed only if the rest does not arrive within that time.
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
    // Unread, the rest would keep the next request on the connection from ever being read.
    request._dump?.()
  }

  function announceEnd(): void {
    response.setHeader('connection', 'close')
    // Node calls this once the response is sent: it would destroy the connection at that moment.
    socket.destroySoon = () => {
      if (request.complete || socket.destroyed) socket.destroy()
      else socket.end()
    }
    request.once('end', () => response.writableFinished && socket.destroy())
  }
}
