import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Logger } from 'pino'
import type { Viewer } from '../../access/viewer.ts'
import { type Caller, OperationError } from '../../doors/tasks/operations.ts'
import type { Stream } from '../../doors/tasks/stream.ts'
import type { Domain } from '../../graphql/domain.ts'
import { createDeferred, sleep } from '../../lib/async.ts'
import { BadInputError, messageOf, RateLimitedError, UnauthenticatedError } from '../../lib/errors.ts'
import { decodeUtf8, parseExactJson } from '../../lib/exact-json.ts'
import { forRequester } from '../../lib/requester-context.ts'
import type { PublicUrl } from '../../platform/public-url.ts'
import { askedOriginOf } from './asked-origin.ts'
import { type Authentication, bearerOf } from './authentication.ts'
import { type BodyReader, BodyRefusedError, ownerOf } from './body.ts'
import { LARGEST_REQUEST_BYTES } from './graphql.ts'
import { type Handler, sendJson } from './health.ts'
import type { Origins } from './origins.ts'
import { STREAM_HEADERS } from './stream-headers.ts'
import { pathOf } from './targets.ts'

export interface DoorHttpParts {
  authentication: Authentication
  rates: Pick<Domain['rates'], 'take'>
  bodies: BodyReader
  origins: Origins
  publicUrl: Pick<PublicUrl, 'to'>
  logger: Pick<Logger, 'error'>
  /** Calls `onEnd` when a viewer's token is no longer valid. Returns a function that stops watching. */
  watchToken(viewer: Viewer, onEnd: () => void): Promise<() => void>
  /** The maximum number of streams, and of calls that wait, of each viewer. */
  maxStreamsPerViewer: number
}

/** A request of a signed-in client, with its body. */
export interface DoorRequest {
  caller: Caller
  /** Aborts when the client has gone, when its token has ended, or when the server drains. */
  waiting: AbortSignal
  path: string
  url: string
  headers: Headers
  /** Null for GET. */
  body: unknown
}

export interface DoorOptions {
  /** Answers a request. */
  serve(request: DoorRequest, response: ServerResponse): Promise<void>
  /** Whether the request waits for agents, or opens a stream: such requests of a viewer are limited. */
  staysOpen(body: unknown): 'no' | 'wait' | 'stream'
  /** How many calls of the request wait at the same time; 1 if absent. */
  waitsOf?(body: unknown): number
  /** The paths that are read with GET. */
  reads?(path: string): boolean
}

/** The parts that all doors of JSON-RPC share: sign-in, limits, bodies and draining. */
export interface DoorHttp {
  handlerOf(options: DoorOptions): Handler
  /** Ends streams and waits. Resolves once every request is answered, after `timeoutMs` at the latest. */
  drain(timeoutMs: number): Promise<void>
  onError(error: Error): void
}

/** Metadata of OAuth (RFC 9728). */
export const METADATA_PATH = '/.well-known/oauth-protected-resource/mcp'

const PARSE_ERROR = -32700
const INVALID_REQUEST = -32600
const INTERNAL_ERROR = -32603
const SERVER_ERROR = -32000
const MOST_IN_BATCH = 100
/** How long a stream stays open after its viewer's token has ended, so that the error is sent first. */
const ENDED_LINGER_MS = 500

export function createDoorHttp(parts: DoorHttpParts): DoorHttp {
  const { authentication, rates, bodies, origins, publicUrl, logger, watchToken, maxStreamsPerViewer } = parts
  const onError = (error: Error) => logger.error({ error: messageOf(error) }, 'a request of a door failed')
  const draining = new AbortController()
  const places = createPlaces(maxStreamsPerViewer)
  const unanswered = new Set<ServerResponse>()
  const { promise: answered, resolve: tellAnswered } = createDeferred()

  /** Browsers send cookies by themselves, also for other sites: doors take bearer tokens only. */
  async function viewerOf(request: IncomingMessage, response: ServerResponse): Promise<Viewer> {
    if (bearerOf(request.headers.authorization) === null) throw new UnauthenticatedError()
    return authentication.viewerOf(request, response)
  }

  function challenge(request: IncomingMessage): Record<string, string> {
    const metadata = publicUrl.to(METADATA_PATH, askedOriginOf(request.headers))
    const invalid = bearerOf(request.headers.authorization) === null ? '' : ', error="invalid_token"'
    return { 'www-authenticate': `Bearer realm="parley"${invalid}, resource_metadata="${metadata}"` }
  }

  async function answer(request: IncomingMessage, response: ServerResponse, options: DoorOptions): Promise<void> {
    const viewer = await viewerOf(request, response)
    const isRead = options.reads?.(pathOf(request)) === true
    const method = isRead ? 'GET' : 'POST'
    if (request.method !== method) return refuse(response, 405, SERVER_ERROR, `Use ${method}.`, { allow: method })
    if (!isRead && !/^application\/(a2a\+)?json\s*(;|$)/i.test(request.headers['content-type'] ?? ''))
      return refuse(response, 415, SERVER_ERROR, 'Send JSON, with Content-Type: application/json.')
    await forRequester(viewer.id, async () => {
      await rates.take('requests', viewer)
      const bounds = { mostBytes: LARGEST_REQUEST_BYTES, owner: ownerOf(viewer) }
      const body = isRead ? null : parsed(await bodies.read(request, bounds))
      if (Array.isArray(body) && body.length > MOST_IN_BATCH)
        return refuse(response, 400, INVALID_REQUEST, `Send at most ${MOST_IN_BATCH} messages at once.`)
      if (Array.isArray(body) && body.length > 1) await rates.take('requests', viewer, body.length - 1)
      await serve(request, response, { viewer, body, options })
    })
  }

  async function serve(
    request: IncomingMessage,
    response: ServerResponse,
    { viewer, body, options }: { viewer: Viewer; body: unknown; options: DoorOptions },
  ): Promise<void> {
    const over = new AbortController()
    response.once('close', () => over.abort())
    if (response.destroyed) return
    const path = pathOf(request)
    const askedOrigin = askedOriginOf(request.headers)
    const staying = options.staysOpen(body)
    if (staying !== 'no') {
      const leave =
        draining.signal.aborted && staying === 'stream' ? null : places.take(viewer, options.waitsOf?.(body) ?? 1)
      if (leave === null) {
        const message = 'Too many streams and calls are open, or the server is shutting down. Try again later.'
        return refuse(response, 503, SERVER_ERROR, message, { 'retry-after': '5' })
      }
      response.once('close', leave)
      const unwatch = await watchToken(viewer, () => {
        over.abort(new UnauthenticatedError())
        if (response.headersSent) setTimeout(() => response.end(), ENDED_LINGER_MS).unref()
        else refuseFor(new UnauthenticatedError(), request, response)
      })
      response.once('close', unwatch)
      if (response.destroyed || over.signal.aborted) return unwatch()
    }
    await options.serve(
      {
        caller: { viewer, askedOrigin, signal: over.signal, response },
        waiting: AbortSignal.any([over.signal, draining.signal]),
        path,
        url: publicUrl.to(path, askedOrigin),
        headers: headersOf(request),
        body,
      },
      response,
    )
  }

  async function handle(request: IncomingMessage, response: ServerResponse, options: DoorOptions): Promise<void> {
    origins.welcome(request, response)
    if (!origins.allows(request))
      return refuse(response, 403, SERVER_ERROR, 'Pages of this origin may not use the server.')
    if (request.method === 'OPTIONS') return preflight(response)
    unanswered.add(response)
    response.once('close', () => {
      unanswered.delete(response)
      if (draining.signal.aborted && unanswered.size === 0) tellAnswered()
    })
    try {
      await answer(request, response, options)
    } catch (error) {
      if (response.writableEnded) return
      if (response.headersSent) response.destroy()
      // The client has gone before the end of its request: nobody reads a response.
      else if (!request.destroyed || request.complete) refuseFor(error, request, response)
    }
  }

  function refuseFor(error: unknown, request: IncomingMessage, response: ServerResponse): void {
    if (error instanceof UnauthenticatedError) refuse(response, 401, SERVER_ERROR, error.message, challenge(request))
    else if (error instanceof RateLimitedError)
      refuse(response, 429, SERVER_ERROR, error.message, retryAfter(error.retryAfterMs))
    else if (error instanceof BodyRefusedError) refuse(response, error.status, SERVER_ERROR, error.message)
    else if (error instanceof BadInputError) refuse(response, 400, PARSE_ERROR, error.message)
    else if (error instanceof OperationError && error.code !== 'INTERNAL_SERVER_ERROR')
      refuseOperation(error, request, response)
    else {
      onError(error as Error)
      refuse(response, 500, INTERNAL_ERROR, 'Internal server error.')
    }
  }

  function refuseOperation(
    { code, message, retryAfterMs }: OperationError,
    request: IncomingMessage,
    response: ServerResponse,
  ): void {
    if (retryAfterMs !== null) refuse(response, 429, SERVER_ERROR, message, retryAfter(retryAfterMs))
    else if (code === 'UNAUTHENTICATED') refuse(response, 401, SERVER_ERROR, message, challenge(request))
    else refuse(response, code === 'NOT_FOUND' ? 404 : 400, SERVER_ERROR, message)
  }

  return {
    onError,
    handlerOf: (options) => (request, response) => handle(request, response, options),
    async drain(timeoutMs) {
      draining.abort()
      if (unanswered.size > 0) await Promise.race([answered, sleep(timeoutMs)])
    },
  }
}

/** Counts what each viewer keeps open. */
function createPlaces(mostPerViewer: number) {
  const open = new Map<string, number>()
  return {
    /** Returns a function that releases the places; null if there are not as many. */
    take({ id }: Viewer, wanted: number): (() => void) | null {
      const count = open.get(id) ?? 0
      if (count + wanted > mostPerViewer) return null
      open.set(id, count + wanted)
      return () => {
        const left = (open.get(id) ?? wanted) - wanted
        if (left === 0) open.delete(id)
        else open.set(id, left)
      }
    },
  }
}

/** @throws BadInputError for a body that is not JSON */
function parsed(body: Buffer): unknown {
  try {
    return parseExactJson(decodeUtf8(body))
  } catch (error) {
    if (error instanceof SyntaxError) throw new BadInputError('The body must be JSON.')
    throw error
  }
}

function headersOf({ headers }: IncomingMessage): Headers {
  const copied = new Headers()
  for (const [name, value] of Object.entries(headers))
    if (typeof value === 'string' && name !== 'authorization' && name !== 'cookie') copied.set(name, value)
  return copied
}

const retryAfter = (ms: number) => ({ 'retry-after': String(Math.max(1, Math.ceil(ms / 1000))) })

function refuse(
  response: ServerResponse,
  status: number,
  code: number,
  message: string,
  headers: Record<string, string> = {},
): void {
  sendJson(response, status, { jsonrpc: '2.0', error: { code, message }, id: null }, headers)
}

export function preflight(response: ServerResponse): void {
  response.writeHead(204, {
    'access-control-allow-methods': 'POST, GET',
    'access-control-allow-headers':
      'authorization, content-type, accept, mcp-protocol-version, mcp-method, mcp-name, a2a-version, a2a-extensions, traceparent, tracestate',
    'access-control-max-age': '3600',
  })
  response.end()
}

/** Sends a response of the protocol's package, at the pace of the client. */
export async function send(response: ServerResponse, { status, headers, body }: Response): Promise<void> {
  if (response.destroyed || response.headersSent) return void body?.cancel()
  const type = headers.get('content-type')
  const isStream = type?.startsWith('text/event-stream') === true
  response.writeHead(status === 499 ? 400 : status, {
    'cache-control': 'no-store',
    ...(type === null ? {} : { 'content-type': type }),
    ...(headers.has('allow') ? { allow: headers.get('allow') as string } : {}),
    ...(isStream ? STREAM_HEADERS : {}),
    'access-control-expose-headers': 'www-authenticate, x-request-id',
  })
  if (body === null) return void response.end()
  const reader = body.getReader()
  const stop = () => void reader.cancel().catch(() => {})
  response.once('close', stop)
  try {
    for (let next = await reader.read(); !next.done; next = await reader.read()) {
      if (response.destroyed || response.writableEnded) return
      if (!response.write(next.value)) await drained(response)
    }
    response.end()
  } finally {
    response.off('close', stop)
  }
}

function drained(response: ServerResponse): Promise<void> {
  return new Promise((resolve) => {
    const over = () => {
      response.off('drain', over).off('close', over)
      resolve()
    }
    response.once('drain', over).once('close', over)
  })
}

export function streamOf(response: ServerResponse): Stream {
  const write = (text: string) => void (response.writableEnded || response.destroyed || response.write(text))
  const send = (message: object) => write(`event: message\ndata: ${JSON.stringify(message)}\n\n`)
  return {
    open(message) {
      if (!response.destroyed && !response.headersSent)
        response.writeHead(200, { 'content-type': 'text/event-stream', ...STREAM_HEADERS })
      send(message)
    },
    send,
    keepAlive: () => write(':\n\n'),
    isBusy: () => response.writableNeedDrain,
    onReady: (listener) => void response.on('drain', listener),
    end: () => void response.end(),
  }
}
