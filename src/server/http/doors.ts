import type { IncomingMessage, ServerResponse } from 'node:http'
import type { ExecutionResult, GraphQLError } from 'graphql'
import type { Rates } from '../../access/rates.ts'
import type { SignIns } from '../../access/sign-ins.ts'
import type { Viewer } from '../../access/viewer.ts'
import {
  type Caller,
  type Door,
  DoorError,
  type DoorErrorCode,
  type EventStream,
  type Exchange,
} from '../../doors/exchange.ts'
import { CHALLENGE, type MaskError } from '../../graphql/masking.ts'
import { BadInputError, DomainError, RateLimitedError } from '../../lib/errors.ts'
import { decodeUtf8, parseExactJson } from '../../lib/exact-json.ts'
import type { PublicUrl } from '../../platform/public-url.ts'
import type { Sending } from '../responses-in-flight.ts'
import { askedOriginOf } from './asked-origin.ts'
import { authenticate, bearerOf } from './authentication.ts'
import { type BodyReader, BodyRefusedError, ownerOf } from './body.ts'
import { type Graphql, LARGEST_REQUEST_BYTES, type OperationContext } from './graphql.ts'
import { type Handler, sendJson } from './health.ts'
import { errorsOf, prepareOperation } from './operation.ts'
import type { Origins } from './origins.ts'
import { REQUEST_ID_HEADER } from './request-ids.ts'
import { STREAM_HEADERS } from './stream-headers.ts'
import { parametersOf, pathOf } from './targets.ts'

export interface DoorsParts {
  graphql: Graphql
  maskError: MaskError
  signIns: SignIns
  origins: Origins
  publicUrl: Pick<PublicUrl, 'to'>
  rates: Pick<Rates, 'take'>
  bodies: BodyReader
  maxResponseBytes: number
  /** Also of other requests that wait for agents. */
  maxStreamsPerViewer: number
  /** By the prefix of their paths. */
  doors: Readonly<Record<string, Door>>
}

/** Serves other protocols. */
export interface Doors {
  /** Null if the path belongs to no door. */
  handlerOf(path: string): Handler | null
  /** Refuses new streams and waits, and ends the open ones: clients of streams rejoin on another process. */
  endStreams(): void
}

export function createDoors({ doors, ...parts }: DoorsParts): Doors {
  const { graphql, maskError, signIns, origins, publicUrl, rates, bodies, maxResponseBytes, maxStreamsPerViewer } =
    parts
  /** The responses that wait for agents: streams, and others that have not begun. */
  const open = new Map<ServerResponse, { viewer: Viewer; door: Door }>()
  let isEnding = false

  /** @throws DoorError */
  function checkStreams(viewer: Viewer): void {
    if (isEnding) throw new DoorError('UNAVAILABLE', 'The server shuts down. Send the request again.')
    const own = [...open.values()].filter((one) => one.viewer.id === viewer.id).length
    if (own >= maxStreamsPerViewer)
      throw new DoorError('RATE_LIMITED', 'You have too many open streams. End some, then try again.', {
        retryAfterMs: 10_000,
      })
  }

  function exchangeOf(door: Door, request: IncomingMessage, response: ServerResponse, path: string): Exchange {
    const closed = new AbortController()
    response.once('close', () => closed.abort(new Error('The client has closed the connection.')))
    let known: Caller | null = null

    async function caller(): Promise<Caller> {
      if (known !== null) return known
      // Unlike GraphQL, no sessions: a page of another site cannot use the cookie of its reader here.
      const credentials = { bearer: bearerOf(request.headers.authorization), cookie: null }
      const viewer = await authenticate(signIns, { ...credentials, address: request.socket.remoteAddress })
      const context: OperationContext = {
        viewer,
        signal: closed.signal,
        onSlow: () => void response.destroy(),
        askedOrigin: askedOriginOf(request.headers),
      }
      known = callerOf({ graphql, maskError }, response, { ...context, viewer, signal: closed.signal })
      return known
    }

    function takePlace(): void {
      const { viewer } = known ?? {}
      if (viewer === undefined) throw new Error('a place needs a caller')
      if (response.destroyed) throw new Error('The client has closed the connection.')
      if (open.has(response)) return
      checkStreams(viewer)
      open.set(response, { viewer, door })
      response.once('close', () => open.delete(response))
    }

    return {
      method: request.method ?? 'GET',
      path,
      query: parametersOf(request),
      header: (name) => (request.headers[name] === undefined ? undefined : String(request.headers[name])),
      caller,
      async json() {
        if (!/^application\/json\s*(;|$)/i.test(request.headers['content-type'] ?? ''))
          throw new DoorError('BAD_INPUT', 'Send JSON, with Content-Type: application/json.', { status: 415 })
        const { viewer } = await caller()
        // Requests that are refused because of their bodies count too.
        await rates.take('requests', viewer)
        const body = await bodies.read(request, { mostBytes: LARGEST_REQUEST_BYTES, owner: ownerOf(viewer) })
        try {
          return parseExactJson(decodeUtf8(body))
        } catch (error) {
          if (error instanceof BadInputError) throw error
          throw new DoorError('BAD_INPUT', 'The body is not valid JSON.')
        }
      },
      send(status, body, headers) {
        if (response.headersSent) return
        sendJson(response, status, body as object, { 'cache-control': 'no-store', ...headers })
      },
      takePlace,
      openStream() {
        takePlace()
        if (response.headersSent) throw new Error('The response has ended.')
        response.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8', ...STREAM_HEADERS })
        response.flushHeaders()
        return streamOf(response)
      },
      linkTo: (to) => publicUrl.to(to, askedOriginOf(request.headers)),
      maxResponseBytes,
    }
  }

  function fail(door: Door, response: ServerResponse, error: unknown): void {
    // Nobody reads the response, or it has begun.
    if (response.destroyed || response.headersSent) return void response.destroy()
    const failure = failureOf(error, maskError)
    const { retryAfterMs } = failure
    const headers = {
      ...failure.headers,
      'cache-control': 'no-store',
      ...(failure.status === 401 ? CHALLENGE : {}),
      ...(retryAfterMs === null ? {} : { 'retry-after': String(Math.ceil(retryAfterMs / 1000)) }),
    }
    sendJson(response, failure.status, door.failureOf(failure) as object, headers)
  }

  return {
    handlerOf(path) {
      const prefix = Object.keys(doors).find((one) => path === one || path.startsWith(`${one}/`))
      const door = prefix === undefined ? undefined : doors[prefix]
      if (prefix === undefined || door === undefined) return null
      return async (request, response) => {
        origins.welcome(request, response)
        response.setHeader('access-control-expose-headers', REQUEST_ID_HEADER)
        if (request.method === 'OPTIONS') return preflight(request, response)
        const exchange = exchangeOf(door, request, response, pathOf(request).slice(prefix.length))
        try {
          await door.handle(exchange)
        } catch (error) {
          fail(door, response, error)
        }
      }
    },
    endStreams() {
      isEnding = true
      for (const [response, { door }] of open) {
        if (response.headersSent) response.destroy()
        else fail(door, response, new DoorError('UNAVAILABLE', SHUT_DOWN, { status: 422 }))
      }
    },
  }
}

/** Answers the question of a browser whether a page may send a request; `welcome` has set the header that allows it. */
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

// Clients send a request again by themselves after 503, although its message may have been posted.
const SHUT_DOWN = 'The server shuts down. The message may have been posted: read the conversation before you try again.'

/** The result of an operation counts as in flight until its door has it, or the client has gone. */
function createSending(response: ServerResponse): Sending & { release(): void } {
  let listeners: (() => void)[] = []
  let isOver = response.closed
  const release = () => {
    isOver = true
    response.off('close', release)
    for (const listener of listeners.splice(0)) listener()
  }
  if (!isOver) response.once('close', release)
  return {
    release,
    onSent(listener) {
      if (isOver) listener()
      else listeners = [...listeners, listener]
    },
    cutOff: () => void response.destroy(),
  }
}

function streamOf(response: ServerResponse): EventStream {
  return {
    async write(text) {
      if (response.destroyed) throw new Error('The client has closed the connection.')
      if (!response.write(text))
        await new Promise<void>((resolve) => {
          const done = () => {
            response.off('drain', done).off('close', done)
            resolve()
          }
          response.on('drain', done).on('close', done)
        })
    },
    end: () => void response.end(),
  }
}

type CallerContext = OperationContext & { viewer: Viewer; signal: AbortSignal }

function callerOf(
  { graphql, maskError }: Pick<DoorsParts, 'graphql' | 'maskError'>,
  response: ServerResponse,
  context: CallerContext,
): Caller {
  const { viewer, signal } = context
  const run = async (query: string, variables: object) => {
    // An object for each operation: several operations of a request may run at once.
    const sending = createSending(response)
    try {
      const request = { query, variables: variables as Record<string, unknown> }
      return await prepareOperation(graphql, { ...context, sending }, request).run()
    } catch (error) {
      throw failureOfErrors(errorsOf(error, maskError))
    } finally {
      sending.release()
    }
  }
  return {
    viewer,
    signal,
    async ask<Data>(query: string, variables: object) {
      const { data, errors } = (await run(query, variables)) as ExecutionResult
      signal.throwIfAborted()
      if (errors !== undefined && errors.length > 0) throw failureOfErrors(errors)
      return data as Data
    },
    subscribe: <Data>(query: string, variables: object) =>
      subscribed<Data>(run(query, variables) as Promise<Subscribed>, signal, maskError),
  }
}

type Event = ExecutionResult & { stringify?: () => string }
type Subscribed = AsyncIterable<Event> | ExecutionResult

/** Iterates a subscription from the moment that it is opened. `return` also ends one that waits for an event. */
function subscribed<Data>(
  opening: Promise<Subscribed>,
  signal: AbortSignal,
  maskError: MaskError,
): AsyncIterableIterator<Data> {
  let isOver = false
  const opened = opening.then((result) => {
    if (!(Symbol.asyncIterator in result)) throw failureOfErrors(result.errors ?? [])
    return result[Symbol.asyncIterator]()
  })
  opened.catch(() => {})
  const end = async () => {
    if (!isOver) {
      isOver = true
      signal.removeEventListener('abort', abort)
      await opened.then((iterator) => iterator.return?.()).catch(() => {})
    }
    return { done: true as const, value: undefined }
  }
  const abort = () => void end()
  signal.addEventListener('abort', abort, { once: true })
  if (signal.aborted) abort()
  const iterator: AsyncIterableIterator<Data> = {
    [Symbol.asyncIterator]: () => iterator,
    async next() {
      if (isOver) return end()
      try {
        const result = await (await opened).next()
        if (result.done === true) return await end()
        const { errors, data } = eventOf(result.value)
        if (errors !== undefined && errors.length > 0) throw failureOfErrors(errors)
        return { done: false, value: data as Data }
      } catch (error) {
        await end()
        throw error instanceof DoorError ? error : failureOf(error, maskError)
      }
    },
    return: end,
  }
  return iterator
}

/** An event is serialized already; an error that ends the subscription is not. */
function eventOf(event: Event): ExecutionResult {
  if (event.stringify === undefined) return event
  return { ...(JSON.parse(event.stringify()) as ExecutionResult), ...(event.errors ? { errors: event.errors } : {}) }
}

const CODE_OF: Readonly<Record<string, DoorErrorCode>> = {
  UNAUTHENTICATED: 'UNAUTHENTICATED',
  FORBIDDEN: 'FORBIDDEN',
  NOT_FOUND: 'NOT_FOUND',
  BAD_USER_INPUT: 'BAD_INPUT',
  QUERY_TOO_COMPLEX: 'BAD_INPUT',
  RATE_LIMITED: 'RATE_LIMITED',
}

function failureOfErrors(errors: readonly GraphQLError[]): DoorError {
  const [first] = errors
  const { code = '', retryAfterMs, field } = (first?.extensions ?? {}) as Record<string, unknown> & { code?: string }
  const own = CODE_OF[code] ?? 'INTERNAL_SERVER_ERROR'
  return new DoorError(own, first?.message ?? 'The operation failed.', {
    retryAfterMs: typeof retryAfterMs === 'number' ? retryAfterMs : null,
    field: typeof field === 'string' ? field : null,
  })
}

/** Converts anything thrown into a failure for clients. */
function failureOf(error: unknown, maskError: MaskError): DoorError {
  if (error instanceof DoorError) return error
  if (error instanceof DomainError)
    return new DoorError(error.code, error.message, {
      field: error instanceof BadInputError ? error.field : null,
      retryAfterMs: error instanceof RateLimitedError ? error.retryAfterMs : null,
    })
  if (error instanceof BodyRefusedError && error.status === 503)
    return failureOf(new RateLimitedError(error.message, 5000), maskError)
  if (error instanceof BodyRefusedError) return new DoorError('BAD_INPUT', error.message, { status: error.status })
  return failureOfErrors([maskError(error)])
}
