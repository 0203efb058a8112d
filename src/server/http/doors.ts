import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Rates } from '../../access/rates.ts'
import type { SignIns } from '../../access/sign-ins.ts'
import type { Viewer } from '../../access/viewer.ts'
import { type Door, DoorError, type Exchange, NOT_TO_RETRY, tooLong } from '../../doors/exchange.ts'
import type { MaskError } from '../../graphql/masking.ts'
import { createDeferred } from '../../lib/async.ts'
import { createCounts } from '../../lib/counts.ts'
import { UnauthenticatedError } from '../../lib/errors.ts'
import { decodeUtf8, parseExactJson } from '../../lib/exact-json.ts'
import { forRequester } from '../../lib/requester-context.ts'
import type { PublicUrl } from '../../platform/public-url.ts'
import type { RequestBytes } from '../request-bytes.ts'
import { type ResponsesInFlight, type Sending, SHORT_RESPONSE_BYTES, sendingBy } from '../responses-in-flight.ts'
import { askedOriginOf } from './asked-origin.ts'
import { authenticate, bearerOf } from './authentication.ts'
import { type BodyReader, ownerOf } from './body.ts'
import { type Callers, failureOf } from './door-callers.ts'
import { LARGEST_REQUEST_BYTES } from './graphql.ts'
import { type Handler, sendJson, sendJsonText } from './health.ts'
import type { Origins } from './origins.ts'
import { REQUEST_ID_HEADER } from './request-ids.ts'
import { STREAM_HEADERS } from './stream-headers.ts'
import { parametersOf, pathOf } from './targets.ts'
import { createUnanswered } from './unanswered.ts'

export interface DoorsParts {
  callerOf: Callers
  maskError: MaskError
  signIns: SignIns
  origins: Origins
  publicUrl: Pick<PublicUrl, 'to'>
  rates: Pick<Rates, 'take'>
  bodies: BodyReader
  requestBytes: RequestBytes
  /** Calls `onEnd` when a viewer's token is no longer valid. Returns a function that stops watching. */
  watchToken(viewer: Viewer, onEnd: () => void): Promise<() => void>
  maxResponseBytes: number
  inFlight: ResponsesInFlight
  /** The maximum number of requests that wait for agents, including open streams. */
  maxStreamsPerViewer: number
  /** The protocol endpoints, by the prefix of their paths. */
  doors: Readonly<Record<string, Door>>
}

/**
 * Serves other protocols. All of them share sign-in, limits, the execution of operations, error handling and
 * shutdown.
 */
export interface Doors {
  /** Returns the handler for a path; null if no endpoint serves the path. */
  handlerOf(path: string): Handler | null
  /**
   * Refuses new streams and ends open streams, whose clients reconnect to another process. Waits up to `timeoutMs`
   * for the other requests, and then refuses those that still wait for agents.
   */
  drain(timeoutMs: number): Promise<void>
}

/** How long a stream stays open after its viewer's token has become invalid. In this time, the error is sent. */
const ENDED_LINGER_MS = 500
const PLACES_RETRY_MS = 5000

/** A response, or an event of a stream, that is about to be sent. */
interface Outgoing {
  viewer: Viewer
  signal: AbortSignal
  sending: Sending
  bytes: number
  hasEffects: boolean
}

/** The number of bytes that framing adds to the data of a server-sent event. */
const MOST_FRAME_BYTES = 256

export function createDoors({ doors, ...parts }: DoorsParts): Doors {
  const { callerOf, maskError, signIns, origins, publicUrl, rates, bodies, requestBytes } = parts
  const { maxResponseBytes, inFlight } = parts
  const places = createPlaces(parts.maxStreamsPerViewer)
  /** The open responses that wait for agents: streams, and responses of which nothing has been sent yet. */
  const open = new Map<ServerResponse, Door>()
  const unanswered = createUnanswered()
  const draining = new AbortController()

  /**
   * Waits while too many bytes are in flight to all clients. Then counts the bytes of this response as in flight
   * until they are sent.
   * @throws DoorError if the wait takes too long. A response to a request that had effects is sent even then.
   */
  async function waitForRoom({ viewer, signal, sending, bytes, hasEffects }: Outgoing): Promise<void> {
    if (bytes < SHORT_RESPONSE_BYTES) return
    await inFlight.hold(viewer.id, bytes, sending, signal).catch((error) => {
      if (!hasEffects) throw failureOf(error, maskError)
      inFlight.watch(sending)
    })
  }

  interface Asked {
    door: Door
    prefix: string
    viewer: Viewer
  }

  function exchangeOf(request: IncomingMessage, response: ServerResponse, { door, prefix, viewer }: Asked): Exchange {
    const closed = new AbortController()
    response.once('close', () => closed.abort(new Error('The client has closed the connection.')))
    const { signal } = closed
    const askedOrigin = askedOriginOf(request.headers)
    let waiting: AbortSignal | null = null

    function endWithToken(): void {
      const ended = failureOf(new UnauthenticatedError(), maskError)
      closed.abort(ended)
      if (response.headersSent) setTimeout(() => response.end(), ENDED_LINGER_MS).unref()
      else fail(door, { request, response }, ended)
    }

    /** Writes a text and resolves when the client has read the text. A long text counts as in flight until then. */
    async function writeHeld(text: string | Uint8Array, bytes: number): Promise<void> {
      const { promise: read, resolve: onRead } = createDeferred()
      const sending = {
        onSent: (listener: () => void) => void read.then(listener),
        waitingBytes: () => response.writableLength,
        cutOff: () => void response.destroy(),
      }
      await waitForRoom({ viewer, signal, sending, bytes, hasEffects: true })
      // The response may have been closed in the meantime, because the token of its viewer became invalid.
      if (!response.destroyed && !response.writableEnded && !response.write(text)) await drained(response)
      onRead()
    }

    return {
      caller: callerOf({ viewer, signal, askedOrigin, response }),
      get waiting() {
        waiting ??= AbortSignal.any([signal, draining.signal])
        return waiting
      },
      method: request.method ?? 'GET',
      path: pathOf(request).slice(prefix.length),
      query: parametersOf(request),
      header: (name) => (request.headers[name] === undefined ? undefined : String(request.headers[name])),
      headers: () => headersOf(request),
      async json() {
        if (!/^application\/([\w.-]+\+)?json\s*(;|$)/i.test(request.headers['content-type'] ?? ''))
          throw new DoorError('BAD_INPUT', 'Send JSON, with Content-Type: application/json.', { status: 415 })
        // Requests count towards the rate even if they are refused because of their bodies.
        await rates.take('requests', viewer)
        const bytes = await bodies.read(request, { mostBytes: LARGEST_REQUEST_BYTES, owner: ownerOf(viewer) })
        requestBytes.charge(viewer, bytes.length)
        const release = requestBytes.hold(viewer, bytes.length)
        if (response.closed) release()
        else response.once('close', release)
        const body = parsed(bytes)
        // Each message of a batch counts as a request.
        if (Array.isArray(body) && body.length > 1) await rates.take('requests', viewer, body.length - 1)
        return body
      },
      async send(status, body, headers) {
        const hasEffects = open.has(response)
        const text = JSON.stringify(body)
        const bytes = Buffer.byteLength(text)
        if (bytes > maxResponseBytes) throw tooLong(maxResponseBytes, hasEffects ? NOT_TO_RETRY : undefined)
        await waitForRoom({ viewer, signal, sending: sendingBy(response), bytes, hasEffects })
        if (!response.headersSent && !response.destroyed) sendJsonText(response, status, text, headers)
      },
      respond: (made) => respond(response, made, (chunk) => writeHeld(chunk, chunk.byteLength)),
      async takePlace({ count = 1, isServedWhileDraining = false } = {}) {
        signal.throwIfAborted()
        if (open.has(response)) return
        if (unanswered.isDraining() && !isServedWhileDraining)
          throw new DoorError('UNAVAILABLE', 'The server is shutting down. Send the request again.')
        const leave = places.take(viewer, count)
        if (leave === null)
          throw new DoorError(
            'RATE_LIMITED',
            'You have too many open streams and waiting calls. End some, then try again.',
            {
              retryAfterMs: PLACES_RETRY_MS,
            },
          )
        open.set(response, door)
        let unwatch = () => {}
        response.once('close', () => {
          leave()
          open.delete(response)
          unwatch()
        })
        unwatch = await parts.watchToken(viewer, endWithToken)
        if (response.destroyed) unwatch()
        signal.throwIfAborted()
      },
      openStream() {
        if (!open.has(response)) throw new Error('a stream needs a free slot')
        signal.throwIfAborted()
        response.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8', ...STREAM_HEADERS })
        response.flushHeaders()
        return {
          async write(text) {
            if (response.destroyed) throw new Error('The client has closed the connection.')
            const bytes = Buffer.byteLength(text)
            if (bytes > maxResponseBytes + MOST_FRAME_BYTES) throw tooLong(maxResponseBytes)
            await writeHeld(text, bytes)
          },
          end: () => void response.end(),
        }
      },
      linkTo: (to) => publicUrl.to(to, askedOrigin),
      maxResponseBytes,
    }
  }

  /**
   * Returns the viewer of a bearer token. The endpoints do not accept cookies, because browsers send them
   * automatically, even for pages of other sites.
   */
  async function viewerOf(request: IncomingMessage): Promise<Viewer> {
    const credentials = { bearer: bearerOf(request.headers.authorization), cookie: null }
    return authenticate(signIns, { ...credentials, address: request.socket.remoteAddress })
  }

  function challenge({ metadataPath }: Door, { headers }: IncomingMessage): Record<string, string> {
    const invalid = bearerOf(headers.authorization) === null ? '' : ', error="invalid_token"'
    const metadata =
      metadataPath === undefined ? '' : `, resource_metadata="${publicUrl.to(metadataPath, askedOriginOf(headers))}"`
    return { 'www-authenticate': `Bearer realm="parley"${invalid}${metadata}` }
  }

  function fail(
    door: Door,
    { request, response }: { request: IncomingMessage; response: ServerResponse },
    error: unknown,
  ): void {
    if (response.writableEnded) return
    // No error can be sent, because the client has disconnected or the response has begun.
    if (response.destroyed || response.headersSent || (request.destroyed && !request.complete))
      return void response.destroy()
    const failure = failureOf(error, maskError)
    const { status, retryAfterMs } = failure
    const headers = {
      ...failure.headers,
      'cache-control': 'no-store',
      ...(status === 401 ? challenge(door, request) : {}),
      ...(retryAfterMs === null ? {} : { 'retry-after': String(Math.max(1, Math.ceil(retryAfterMs / 1000))) }),
    }
    sendJson(response, status, door.failureOf(failure) as object, headers)
  }

  /**
   * Returns before the endpoint has responded. If this function waited for the response, all its callers would take
   * memory as long as a stream is open.
   */
  async function serve(
    { door, prefix }: Pick<Asked, 'door' | 'prefix'>,
    request: IncomingMessage,
    response: ServerResponse,
  ): Promise<void> {
    origins.welcome(request, response)
    response.setHeader('access-control-expose-headers', `${REQUEST_ID_HEADER}, www-authenticate`)
    unanswered.add(response)
    response.once('close', () => unanswered.delete(response))
    const onError = (error: unknown) => fail(door, { request, response }, error)
    try {
      if (!origins.allows(request)) throw new DoorError('FORBIDDEN', 'Pages from this origin may not use the server.')
      if (request.method === 'OPTIONS') return preflight(request, response)
      const viewer = await viewerOf(request)
      const handle = () => door.handle(exchangeOf(request, response, { door, prefix, viewer }))
      void forRequester(viewer.id, handle).catch(onError)
    } catch (error) {
      onError(error)
    }
  }

  return {
    handlerOf(path) {
      const prefix = Object.keys(doors).find((one) => path === one || path.startsWith(`${one}/`))
      const door = prefix === undefined ? undefined : doors[prefix]
      if (prefix === undefined || door === undefined) return null
      return (request, response) => serve({ door, prefix }, request, response)
    },
    async drain(timeoutMs) {
      draining.abort()
      for (const [response, door] of open) if (!door.endsAtDrain && response.headersSent) response.destroy()
      await unanswered.drain(timeoutMs)
      for (const [response, door] of open)
        fail(door, { request: response.req, response }, new DoorError('UNAVAILABLE', SHUT_DOWN, NOT_TO_RETRY))
    },
  }
}

// This error is not sent with status 503, because clients retry automatically after a 503, although the message may
// already have been posted.
const SHUT_DOWN =
  'The server is shutting down. The message may have been posted: read the conversation before you try again.'

/** Counts the open streams and calls of each viewer. */
function createPlaces(mostPerViewer: number) {
  const taken = createCounts()
  return {
    /** Returns a function that undoes the reservation; null if the viewer would exceed the limit. */
    take({ id }: Viewer, wanted: number): (() => void) | null {
      if (taken.of(id) + wanted > mostPerViewer) return null
      taken.add(id, wanted)
      return () => void taken.add(id, -wanted)
    },
  }
}

/** @throws BadInputError, DoorError */
function parsed(body: Buffer): unknown {
  try {
    return parseExactJson(decodeUtf8(body))
  } catch (error) {
    if (error instanceof SyntaxError) throw new DoorError('BAD_INPUT', 'The body is not valid JSON.')
    throw error
  }
}

/** Responds to a browser's preflight request. `welcome` has already set the headers that allow the request. */
function preflight(request: IncomingMessage, response: ServerResponse): void {
  const asked = request.headers['access-control-request-headers']
  response
    .writeHead(204, {
      'access-control-allow-methods': 'GET, POST',
      ...(asked === undefined ? {} : { 'access-control-allow-headers': asked }),
      'access-control-max-age': '3600',
    })
    .end()
}

function headersOf({ headers }: IncomingMessage): Headers {
  const copied = new Headers()
  for (const [name, value] of Object.entries(headers))
    if (typeof value === 'string' && name !== 'authorization' && name !== 'cookie') copied.set(name, value)
  return copied
}

async function respond(
  response: ServerResponse,
  { status, headers, body }: Response,
  write: (chunk: Uint8Array) => Promise<void>,
): Promise<void> {
  if (response.destroyed || response.headersSent) return void body?.cancel()
  const type = headers.get('content-type')
  response.writeHead(status === 499 ? 400 : status, {
    'cache-control': 'no-store',
    ...(type === null ? {} : { 'content-type': type }),
    ...(headers.has('allow') ? { allow: headers.get('allow') as string } : {}),
    ...(type?.startsWith('text/event-stream') === true ? STREAM_HEADERS : {}),
  })
  if (body === null) return void response.end()
  const reader = body.getReader()
  const stop = () => void reader.cancel().catch(() => {})
  response.once('close', stop)
  try {
    for (let next = await reader.read(); !next.done; next = await reader.read()) {
      if (response.destroyed || response.writableEnded) return
      await write(next.value)
    }
    response.end()
  } finally {
    response.off('close', stop)
  }
}

/** Resolves when the client has read the written data, or has disconnected. */
function drained(response: ServerResponse): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      response.off('drain', done).off('close', done)
      resolve()
    }
    response.on('drain', done).on('close', done)
  })
}
