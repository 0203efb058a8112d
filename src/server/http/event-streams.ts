import { randomUUID } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { ExecutionResult, GraphQLError } from 'graphql'
import type { Rates } from '../../access/rates.ts'
import type { Viewer } from '../../access/viewer.ts'
import type { Sink } from '../../delivery/answer.ts'
import { CHALLENGE, formatError, type MaskError } from '../../graphql/masking.ts'
import { createCounts } from '../../lib/counts.ts'
import { BadInputError, UnauthenticatedError } from '../../lib/errors.ts'
import { decodeUtf8, parseExactJson } from '../../lib/exact-json.ts'
import { LONGEST_OPERATION_ID, type RequestBytes } from '../request-bytes.ts'
import { askedOriginOf } from './asked-origin.ts'
import type { Authentication } from './authentication.ts'
import { type BodyReader, BodyRefusedError, ownerOf } from './body.ts'
import { type Graphql, LARGEST_REQUEST_BYTES } from './graphql.ts'
import { type Handler, sendJson } from './health.ts'
import { errorsOf, type OperationRequest, prepareOperation, type Result } from './operation.ts'
import { STREAM_HEADERS } from './stream-headers.ts'
import { parametersOf } from './targets.ts'
import { createUnanswered } from './unanswered.ts'

/**
 * Implements the single connection mode of "GraphQL over Server-Sent Events": PUT reserves a stream, GET opens it,
 * POST executes an operation whose results arrive on the stream, and DELETE ends an operation.
 * https://github.com/enisdenjo/graphql-sse/blob/master/PROTOCOL.md
 */
export interface EventStreams {
  handle: Handler
  /** Whether a request belongs to this mode. */
  concerns(request: IncomingMessage): boolean
  /** Refuses new operations and ends the streams. See Sockets.close. */
  drain(timeoutMs: number): Promise<void>
}

export interface EventStreamsParts {
  graphql: Graphql
  authentication: Authentication
  maskError: MaskError
  /** Calls `onEnd` when a viewer's token is no longer valid. Returns a function that stops watching. */
  watchViewer(viewer: Viewer, onEnd: () => void): Promise<() => void>
  maxStreamsPerViewer: number
  bodies: BodyReader
  requestBytes: RequestBytes
  rates: Pick<Rates, 'take'>
}

const TOKEN_HEADER = 'x-graphql-event-stream-token'
const PING = ':\n\n'
const PING_MS = 12_000
/** The time within which a client must open a stream that it has reserved. */
const RESERVED_MS = 30_000
const MOST_OPERATIONS = 100
/** How long a stream stays open after the viewer's token or session has become invalid. */
const ENDED_LINGER_MS = 500

interface Stream {
  token: string
  viewer: Viewer
  /** The response of the GET request; null until the client opens the stream. */
  response: ServerResponse | null
  /**
   * Functions that end the stream's operations, by the operation id that the client chose. The value is null while
   * an operation starts.
   */
  operations: Map<string, (() => void) | null>
  expiry: NodeJS.Timeout
  /** Aborts when the client closes the stream. */
  closed: AbortController
}

interface Posted extends OperationRequest {
  extensions?: { operationId?: unknown }
}

export function createEventStreams({
  graphql,
  authentication,
  maskError,
  watchViewer,
  maxStreamsPerViewer,
  bodies,
  requestBytes,
  rates,
}: EventStreamsParts): EventStreams {
  const streams = new Map<string, Stream>()
  /** The number of streams by viewer id, over all tokens of the viewer. */
  const counts = createCounts()
  const unanswered = createUnanswered()

  function drop(token: string): void {
    const stream = streams.get(token)
    if (stream === undefined) return
    streams.delete(token)
    counts.add(stream.viewer.id, -1)
  }

  function reserve(viewer: Viewer, response: ServerResponse): void {
    if (counts.of(viewer.id) >= maxStreamsPerViewer || unanswered.isDraining()) {
      sendText(
        response,
        503,
        'Too many event streams are open, or the server is shutting down. Close some streams and try again.',
      )
      return
    }
    const token = randomUUID()
    const expiry = setTimeout(() => drop(token), RESERVED_MS).unref()
    counts.add(viewer.id, 1)
    streams.set(token, { token, viewer, response: null, operations: new Map(), expiry, closed: new AbortController() })
    sendText(response, 201, token)
  }

  async function open(stream: Stream, response: ServerResponse): Promise<void> {
    const leave = await watchViewer(stream.viewer, () => {
      // The delay gives the errors of the stream's operations time to arrive first.
      setTimeout(() => response.end(), ENDED_LINGER_MS).unref()
    })
    response.once('close', leave)
    if (response.destroyed) return leave()
    if (stream.response !== null) return sendText(response, 409, 'The event stream is open already.')
    clearTimeout(stream.expiry)
    stream.response = response
    response.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8', ...STREAM_HEADERS })
    write(stream, PING)
    const ping = setInterval(() => response.writableNeedDrain || write(stream, PING), PING_MS)
    response.once('close', () => {
      clearInterval(ping)
      drop(stream.token)
      stream.closed.abort()
      for (const end of stream.operations.values()) end?.()
    })
  }

  /** Executes an operation with the rights of the POST request's credentials, not with those of the stream. */
  async function post(
    stream: Stream,
    viewer: Viewer,
    request: IncomingMessage,
    response: ServerResponse,
  ): Promise<void> {
    const owner = ownerOf(viewer)
    const body = await bodies.read(request, { mostBytes: LARGEST_REQUEST_BYTES, owner })
    requestBytes.charge(viewer, body.length)
    const posted = parsed(body)
    const operationId = posted?.extensions?.operationId
    if (posted === null || typeof operationId !== 'string' || operationId.length > LONGEST_OPERATION_ID) {
      const hint = `Send an operation as JSON, with \`extensions.operationId\` of at most ${LONGEST_OPERATION_ID} characters.`
      return sendErrors(response, [maskError(new BadInputError(hint))])
    }
    const { operations } = stream
    if (operations.has(operationId))
      return sendText(response, 409, 'This operation id is already in use. Choose another.')
    if (operations.size >= MOST_OPERATIONS || unanswered.isDraining())
      return sendText(
        response,
        503,
        'Too many operations are active on this event stream, or the server is shutting down. Try again later.',
      )
    operations.set(operationId, null)
    try {
      const { signal } = stream.closed
      const onSlow = () => void stream.response?.destroy()
      let sent = () => {}
      const onSent = (listener: () => void) => {
        sent = listener
      }
      const waitingBytes = () => stream.response?.writableLength ?? 0
      const sending = { onSent, waitingBytes, cutOff: onSlow }
      const sink = sinkOf(stream, operationId)
      const context = {
        viewer,
        signal,
        onSlow,
        sink,
        sending,
        askedOrigin: askedOriginOf(request.headers),
        requestBytes: body.length,
      }
      const operation = prepareOperation(graphql, context, posted)
      if (!operation.isSubscription) unanswered.add(posted)
      sendText(response, 202, '')
      void answer(stream, operationId, operation.run()).finally(() => {
        unanswered.delete(posted)
        whenDrained(stream.response, () => sent())
      })
    } catch (error) {
      operations.delete(operationId)
      sendErrors(response, errorsOf(error, maskError))
    }
  }

  /** Sends the results of an operation. Never rejects: if an error ends the operation, the error is its last result. */
  async function answer(stream: Stream, operationId: string, running: Promise<Result>): Promise<void> {
    const { operations } = stream
    const tell = ({ errors, ...rest }: ExecutionResult) => {
      if (!operations.has(operationId)) return
      const payload = errors === undefined ? rest : { ...rest, errors: errors.map(formatError) }
      write(stream, eventOf('next', { id: operationId, payload }))
    }
    try {
      const result = await running
      if (Symbol.asyncIterator in result) {
        const iterator = result[Symbol.asyncIterator]()
        const isWanted = operations.has(operationId) && stream.response?.destroyed !== true
        if (isWanted) operations.set(operationId, () => void iterator.return?.())
        else await iterator.return?.()
        for (let next = await iterator.next(); !next.done; next = await iterator.next()) tell(next.value)
      } else tell(result)
    } catch (error) {
      tell({ errors: errorsOf(error, maskError) })
    }
    if (operations.delete(operationId)) write(stream, eventOf('complete', { id: operationId }))
  }

  function end(stream: Stream, request: IncomingMessage, response: ServerResponse): void {
    const operationId = parametersOf(request).get('operationId') ?? ''
    const endOperation = stream.operations.get(operationId)
    stream.operations.delete(operationId)
    endOperation?.()
    sendText(response, 200, '')
  }

  return {
    concerns: (request) => request.method === 'PUT' || request.method === 'DELETE' || tokenOf(request) !== null,
    async handle(request, response) {
      try {
        const viewer = await authentication.viewerOf(request, response)
        if (request.method !== 'POST') await rates.take('requests', viewer)
        if (request.method === 'PUT') return reserve(viewer, response)
        const stream = streams.get(tokenOf(request) ?? '')
        if (stream === undefined || !isSame(stream.viewer, viewer))
          return sendText(response, 404, 'There is no such event stream.')
        if (request.method === 'GET') await open(stream, response)
        else if (request.method === 'DELETE') end(stream, request, response)
        else await post(stream, viewer, request, response)
      } catch (error) {
        if (error instanceof BodyRefusedError) return sendText(response, error.status, error.message)
        sendErrors(response, [maskError(error)], error instanceof UnauthenticatedError ? CHALLENGE : {})
      }
    },
    drain: unanswered.drain,
  }
}

function sinkOf(stream: Stream, operationId: string): Sink {
  const head = `event: next\ndata: {"id":${JSON.stringify(operationId)},"payload":`
  return {
    send(answers) {
      for (const { text } of answers) write(stream, `${head}${text}}\n\n`)
    },
    isBusy: () => stream.response?.writableNeedDrain === true,
    whenReady(listener) {
      stream.response?.on('drain', listener)
      return () => void stream.response?.off('drain', listener)
    },
  }
}

function whenDrained(response: ServerResponse | null, listener: () => void): void {
  if (response === null || response.closed || !response.writableNeedDrain) {
    listener()
    return
  }
  const end = () => {
    response.off('drain', end)
    response.off('close', end)
    listener()
  }
  response.on('drain', end)
  response.on('close', end)
}

/**
 * Writes to the stream if it is open. A stream can end before its operations do, when its viewer's token becomes
 * invalid.
 */
function write({ response }: Stream, text: string): void {
  if (response?.writableEnded === false) response.write(text)
}

const eventOf = (event: 'next' | 'complete', data: object) => `event: ${event}\ndata: ${JSON.stringify(data)}\n\n`

function sendErrors(
  response: ServerResponse,
  errors: readonly GraphQLError[],
  headers: Record<string, string> = {},
): void {
  const { status = 400 } = (errors[0]?.extensions['http'] ?? {}) as { status?: number }
  sendJson(response, status, { errors: errors.map(formatError) }, headers)
}

function sendText(response: ServerResponse, status: number, text: string): void {
  response.writeHead(status, { 'content-type': 'text/plain; charset=utf-8', 'cache-control': 'no-store' }).end(text)
}

/**
 * Returns the operation in a body; null if the body is not an operation.
 * @throws BadInputError if the body is not UTF-8, or contains numbers that JavaScript cannot represent exactly
 */
function parsed(body: Buffer): Posted | null {
  try {
    const posted = parseExactJson(decodeUtf8(body)) as Posted | null
    return typeof posted?.query === 'string' ? posted : null
  } catch (error) {
    if (error instanceof SyntaxError) return null
    throw error
  }
}

/** Returns the token of a stream, from the header or, when a client opens the stream, from the query string. */
function tokenOf(request: IncomingMessage): string | null {
  const { headers, method } = request
  const given = headers[TOKEN_HEADER]
  if (given !== undefined) return String(given)
  const parameters = parametersOf(request)
  return method === 'GET' && !parameters.has('query') ? parameters.get('token') : null
}

/** Whether both are the same viewer, with the same credential and the same rights. */
const isSame = (one: Viewer, other: Viewer) =>
  one.id === other.id && one.tokenId === other.tokenId && one.scope === other.scope && roleOf(one) === roleOf(other)

const roleOf = (viewer: Viewer) => (viewer.scope === 'HUMAN' ? viewer.role : undefined)
