import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Logger } from 'pino'
import type { Viewer } from '../../access/viewer.ts'
import { createMcpDoor, isListen, type McpRequest, mayWait } from '../../doors/mcp/door.ts'
import type { Stream } from '../../doors/mcp/listen.ts'
import type { Operations } from '../../doors/mcp/operations.ts'
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

export const MCP_PATH = '/mcp'
/** Metadata of OAuth (RFC 9728): at the root, and for the path of the door. */
export const PROTECTED_RESOURCE_PATH = /^\/\.well-known\/oauth-protected-resource(\/mcp)?$/
const METADATA_PATH = '/.well-known/oauth-protected-resource/mcp'

export interface McpHandlerParts {
  operations: Operations
  authentication: Authentication
  rates: Pick<Domain['rates'], 'take'>
  bodies: BodyReader
  origins: Origins
  publicUrl: Pick<PublicUrl, 'to'>
  logger: Pick<Logger, 'error'>
  /** The issuers of tokens, for OAuth clients; empty without any. */
  issuers: readonly string[]
  maxResponseBytes: number
  /** The maximum number of streams, and of calls that wait, of each viewer. */
  maxStreamsPerViewer: number
}

export interface McpHandler {
  handle: Handler
  metadata: Handler
  /** Ends streams and waits. Resolves once every request is answered, after `timeoutMs` at the latest. */
  drain(timeoutMs: number): Promise<void>
}

/** JSON-RPC errors of HTTP: https://modelcontextprotocol.io/specification/2026-07-28/basic/transports */
const PARSE_ERROR = -32700
const INVALID_REQUEST = -32600
const INTERNAL_ERROR = -32603
const SERVER_ERROR = -32000
const MOST_IN_BATCH = 100

/** `POST /mcp`: see `src/doors/mcp`. This file has what belongs to HTTP: sign-in, limits, bodies and streams. */
export function createMcpHandler(parts: McpHandlerParts): McpHandler {
  const { operations, authentication, rates, bodies, origins, publicUrl, logger, issuers, maxResponseBytes } = parts
  const onError = (error: Error) => logger.error({ error: messageOf(error) }, 'a request of an MCP client failed')
  const door = createMcpDoor({ operations, maxResponseBytes, onError })
  const draining = new AbortController()
  const places = createPlaces(parts.maxStreamsPerViewer)
  const unanswered = new Set<ServerResponse>()
  const { promise: answered, resolve: tellAnswered } = createDeferred()

  /** Browsers send cookies by themselves, also for other sites: the door takes bearer tokens only. */
  async function viewerOf(request: IncomingMessage, response: ServerResponse): Promise<Viewer> {
    if (bearerOf(request.headers.authorization) === null) throw new UnauthenticatedError()
    return authentication.viewerOf(request, response)
  }

  function challenge(request: IncomingMessage): Record<string, string> {
    const metadata = publicUrl.to(METADATA_PATH, askedOriginOf(request.headers))
    const invalid = bearerOf(request.headers.authorization) === null ? '' : ', error="invalid_token"'
    return { 'www-authenticate': `Bearer realm="parley"${invalid}, resource_metadata="${metadata}"` }
  }

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const viewer = await viewerOf(request, response)
    if (request.method !== 'POST') return refuse(response, 405, SERVER_ERROR, 'Use POST.', { allow: 'POST' })
    if (!/^application\/json\s*(;|$)/i.test(request.headers['content-type'] ?? ''))
      return refuse(response, 415, SERVER_ERROR, 'Send JSON, with Content-Type: application/json.')
    await forRequester(viewer.id, async () => {
      await rates.take('requests', viewer)
      const body = parsed(await bodies.read(request, { mostBytes: LARGEST_REQUEST_BYTES, owner: ownerOf(viewer) }))
      if (Array.isArray(body) && body.length > MOST_IN_BATCH)
        return refuse(response, 400, INVALID_REQUEST, `Send at most ${MOST_IN_BATCH} messages at once.`)
      if (Array.isArray(body) && body.length > 1) await rates.take('requests', viewer, body.length - 1)
      await serve(request, response, viewer, body)
    })
  }

  async function serve(
    request: IncomingMessage,
    response: ServerResponse,
    viewer: Viewer,
    body: unknown,
  ): Promise<void> {
    const gone = new AbortController()
    response.once('close', () => gone.abort())
    if (response.destroyed) return
    const askedOrigin = askedOriginOf(request.headers)
    const exchange: McpRequest = {
      caller: { viewer, askedOrigin, signal: gone.signal, response },
      waiting: AbortSignal.any([gone.signal, draining.signal]),
      url: publicUrl.to(MCP_PATH, askedOrigin),
      headers: headersOf(request),
      body,
    }
    if (!isListen(body) && !mayWait(body)) return send(response, await door.answer(exchange))
    const leave = draining.signal.aborted && isListen(body) ? null : places.take(viewer)
    if (leave === null) {
      const message = 'Too many streams and calls are open, or the server is shutting down. Try again later.'
      return refuse(response, 503, SERVER_ERROR, message, { 'retry-after': '5' })
    }
    response.once('close', leave)
    if (!isListen(body)) return send(response, await door.answer(exchange))
    const refusal = await door.listen(exchange, streamOf(response))
    if (refusal !== null) await send(response, refusal)
  }

  async function handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
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
      await answer(request, response)
    } catch (error) {
      if (response.headersSent) response.destroy()
      // The client has gone before the end of its request: nobody reads a response.
      else if (!request.destroyed || request.complete) refuseFor(error, request, response)
    }
  }

  function refuseFor(error: unknown, request: IncomingMessage, response: ServerResponse): void {
    if (error instanceof UnauthenticatedError) refuse(response, 401, SERVER_ERROR, error.message, challenge(request))
    else if (error instanceof RateLimitedError) {
      const seconds = String(Math.max(1, Math.ceil(error.retryAfterMs / 1000)))
      refuse(response, 429, SERVER_ERROR, error.message, { 'retry-after': seconds })
    } else if (error instanceof BodyRefusedError) refuse(response, error.status, SERVER_ERROR, error.message)
    else if (error instanceof BadInputError) refuse(response, 400, PARSE_ERROR, error.message)
    else {
      onError(error as Error)
      refuse(response, 500, INTERNAL_ERROR, 'Internal server error.')
    }
  }

  return {
    handle,
    metadata(request, response) {
      response.setHeader('access-control-allow-origin', '*')
      if (request.method === 'OPTIONS') return preflight(response)
      if (request.method !== 'GET' && request.method !== 'HEAD')
        return sendJson(response, 405, { error: 'Use GET.' }, { allow: 'GET, HEAD' })
      sendJson(response, 200, {
        resource: publicUrl.to(MCP_PATH, askedOriginOf(request.headers)),
        ...(issuers.length > 0 ? { authorization_servers: issuers } : {}),
        bearer_methods_supported: ['header'],
        resource_name: 'Parley',
      })
    },
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
    /** Returns a function that releases the place; null if there is none. */
    take({ id }: Viewer): (() => void) | null {
      const count = open.get(id) ?? 0
      if (count >= mostPerViewer) return null
      open.set(id, count + 1)
      return () => {
        const left = (open.get(id) ?? 1) - 1
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

function refuse(
  response: ServerResponse,
  status: number,
  code: number,
  message: string,
  headers: Record<string, string> = {},
): void {
  sendJson(response, status, { jsonrpc: '2.0', error: { code, message }, id: null }, headers)
}

function preflight(response: ServerResponse): void {
  response.writeHead(204, {
    'access-control-allow-methods': 'POST, GET',
    'access-control-allow-headers':
      'authorization, content-type, accept, mcp-protocol-version, mcp-method, mcp-name, traceparent, tracestate',
    'access-control-max-age': '3600',
  })
  response.end()
}

/** Sends a response of the protocol's package, at the pace of the client. */
async function send(response: ServerResponse, { status, headers, body }: Response): Promise<void> {
  if (response.destroyed) return void body?.cancel()
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
      if (response.destroyed) return
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

function streamOf(response: ServerResponse): Stream {
  const write = (text: string) => void (response.writableEnded || response.destroyed || response.write(text))
  const send = (message: object) => write(`event: message\ndata: ${JSON.stringify(message)}\n\n`)
  return {
    open(message) {
      if (!response.destroyed) response.writeHead(200, { 'content-type': 'text/event-stream', ...STREAM_HEADERS })
      send(message)
    },
    send,
    keepAlive: () => write(':\n\n'),
    isBusy: () => response.writableNeedDrain,
    onReady: (listener) => void response.on('drain', listener),
    end: () => void response.end(),
  }
}
