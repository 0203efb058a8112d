import type { IncomingMessage } from 'node:http'
import type { Plugin } from 'graphql-yoga'
import type { Viewer } from '../../access/viewer.ts'
import { type MaskError, topLevelError } from '../../graphql/masking.ts'
import { createDeferred } from '../../lib/async.ts'
import { BadInputError, RateLimitedError } from '../../lib/errors.ts'
import { decodeUtf8, parseExactJson } from '../../lib/exact-json.ts'
import type { RequestBytes } from '../request-bytes.ts'
import type { RequestContext } from './authentication.ts'

type Refusal = 408 | 413 | 415 | 503

/**
 * The error for a request whose body the server does not read completely: the body arrives too slowly (408), is too
 * large (413) or has an unsupported encoding (415), or the server lacks memory (503).
 */
export class BodyRefusedError extends Error {
  readonly status: Refusal
  constructor(status: Refusal, message: string) {
    super(message)
    this.status = status
  }
}

export interface BodyBounds {
  mostBytes: number
  /** The owner to whom the memory of an incomplete body is charged. See `ownerOf`. */
  owner: string
}

/** Reads text bodies of requests, with limits on memory and time. */
export interface BodyReader {
  /**
   * Returns the whole body.
   * @throws BodyRefusedError if the body exceeds a limit, or if the headers declare an encoding other than UTF-8;
   * the rest of the body is then not read
   */
  read(request: IncomingMessage, bounds: BodyBounds): Promise<Buffer>
}

export interface BodyReaderOptions {
  /**
   * The maximum size of all incomplete bodies together. If it is exceeded, the largest body of the owner with the
   * most bytes is refused.
   */
  mostUnfinishedBytes?: number
  /** The time limit for one whole body. */
  timeoutMs?: number
  now?(): number
}

const MOST_UNFINISHED_BYTES = 64 * 1024 * 1024
const TIMEOUT_MS = 30_000
/** The maximum pause between two chunks. A small body may pause for longer, because it takes little memory. */
const MOST_IDLE_MS = 5000
const MOST_IDLE_OF_SMALL_MS = 10_000
/** A body with at most this Content-Length may take the whole time limit, however slow the connection is. */
const SMALL_BYTES = 64 * 1024
/** After this time, larger bodies must arrive at a minimum rate: 1 MiB within 26 s. */
const PACE_AFTER_MS = 10_000
const LEAST_BYTES_PER_SECOND = 64 * 1024
const SWEEP_MS = 500

/** The progress of one body. */
export interface BodyProgress {
  receivedBytes: number
  /** The Content-Length; null if there is none. */
  declaredBytes: number | null
  elapsedMs: number
  /** The time since the last byte arrived. */
  idleMs: number
}

/** Whether a body arrives so slowly that it is refused before the time limit. */
export function isTooSlow({ receivedBytes, declaredBytes, elapsedMs, idleMs }: BodyProgress): boolean {
  if (declaredBytes !== null && declaredBytes <= SMALL_BYTES) return idleMs > MOST_IDLE_OF_SMALL_MS
  return idleMs > MOST_IDLE_MS || elapsedMs > PACE_AFTER_MS + (receivedBytes / LEAST_BYTES_PER_SECOND) * 1000
}

interface UnfinishedBody {
  readonly owner: string
  receivedBytes: number
  readonly declaredBytes: number | null
  readonly startedAt: number
  receivedAt: number
  refuse(error: Error): void
}

export function createBodyReader(options: BodyReaderOptions = {}): BodyReader {
  const { mostUnfinishedBytes = MOST_UNFINISHED_BYTES, timeoutMs = TIMEOUT_MS, now = Date.now } = options
  const unfinished = new Set<UnfinishedBody>()
  let heldBytes = 0
  let sweeping: NodeJS.Timeout | null = null

  /** One timer serves all bodies, most of which are complete before the timer fires. */
  function sweep(): void {
    const time = now()
    for (const body of unfinished) {
      const elapsedMs = time - body.startedAt
      const isLate = elapsedMs > timeoutMs || isTooSlow({ ...body, elapsedMs, idleMs: time - body.receivedAt })
      if (isLate)
        body.refuse(
          new BodyRefusedError(
            408,
            'The request body arrived too slowly: send the request again over a faster connection.',
          ),
        )
    }
    if (unfinished.size > 0 || sweeping === null) return
    clearInterval(sweeping)
    sweeping = null
  }

  return {
    async read(request, { mostBytes, owner }) {
      checkEncoding(request)
      const length = request.headers['content-length']
      const declaredBytes = length === undefined ? null : Number(length)
      if ((declaredBytes ?? 0) > mostBytes) throw tooLarge(mostBytes)
      const [time, { promise: refused, reject: refuse }] = [now(), createDeferred<never>()]
      const body = { owner, receivedBytes: 0, declaredBytes, startedAt: time, receivedAt: time, refuse }
      unfinished.add(body)
      sweeping ??= setInterval(sweep, Math.min(SWEEP_MS, timeoutMs)).unref()
      const chunks: Buffer[] = []
      const receive = (chunk: Buffer) => {
        body.receivedAt = now()
        body.receivedBytes += chunk.length
        heldBytes += chunk.length
        chunks.push(chunk)
        if (body.receivedBytes > mostBytes) refuse(tooLarge(mostBytes))
        if (heldBytes > mostUnfinishedBytes) largestOfLargestOwner(unfinished)?.refuse(noRoom())
      }
      request.on('data', receive)
      try {
        await Promise.race([refused, endOf(request)])
        return Buffer.concat(chunks)
      } finally {
        // The request keeps flowing, but its data is dropped.
        request.off('data', receive)
        unfinished.delete(body)
        heldBytes -= body.receivedBytes
      }
    },
  }
}

function largestOfLargestOwner(bodies: ReadonlySet<UnfinishedBody>): UnfinishedBody | undefined {
  const byOwner = new Map<string, number>()
  for (const { owner, receivedBytes } of bodies) byOwner.set(owner, (byOwner.get(owner) ?? 0) + receivedBytes)
  let largest: UnfinishedBody | undefined
  for (const body of bodies) {
    const [held, most] = [byOwner.get(body.owner) ?? 0, largest ? (byOwner.get(largest.owner) ?? 0) : -1]
    const isLarger = held > most || (body.owner === largest?.owner && body.receivedBytes > largest.receivedBytes)
    if (isLarger) largest = body
  }
  return largest
}

/** Resolves when the request's body is complete. @throws if the connection closes earlier */
function endOf(request: IncomingMessage): Promise<void> {
  return new Promise((resolve, reject) => {
    const leave = () => reject(new Error('The client closed the connection before its request was complete.'))
    request.once('end', resolve).once('error', reject).once('close', leave)
  })
}

/** @throws BodyRefusedError for a charset other than UTF-8 or for any content coding */
function checkEncoding({ headers }: IncomingMessage): void {
  const coding = headers['content-encoding']?.trim().toLowerCase() ?? ''
  if (coding !== '' && coding !== 'identity')
    throw new BodyRefusedError(415, `Unsupported Content-Encoding ${quoted(coding)}: send the body without it.`)
  const parameters = headers['content-type']?.split(';').slice(1) ?? []
  for (const parameter of parameters) {
    const [, charset] = /^\s*charset\s*=\s*"?([^"]*?)"?\s*$/i.exec(parameter) ?? []
    if (charset !== undefined && !/^utf-?8$/i.test(charset.trim()))
      throw new BodyRefusedError(415, `Unsupported charset ${quoted(charset)}: encode the body as UTF-8.`)
  }
}

const LONGEST_QUOTED = 40
const quoted = (name: string) => JSON.stringify(name.slice(0, LONGEST_QUOTED))

function noRoom(): BodyRefusedError {
  const message = 'The server has no memory left for incomplete request bodies: try again in a few seconds.'
  return new BodyRefusedError(503, message)
}

function tooLarge(mostBytes: number): BodyRefusedError {
  return new BodyRefusedError(413, `The request body is too large: send at most ${mostBytes / 1024} KiB.`)
}

export interface PostedBodyParts {
  bodies: BodyReader
  requestBytes: RequestBytes
  maskError: MaskError
  mostBytes: number
}

/**
 * Reads the body of a POST operation directly from the connection. GraphQL Yoga would read the body through two
 * layers of web streams, which accounted for an eighth of the time of a small query.
 */
export function usePostedBody({
  bodies,
  requestBytes,
  maskError,
  mostBytes,
}: PostedBodyParts): Plugin<object, RequestContext> {
  async function read(request: IncomingMessage, viewer: Viewer): Promise<Buffer> {
    const body = await bodies.read(request, { mostBytes, owner: ownerOf(viewer) })
    requestBytes.charge(viewer, body.length)
    return body
  }

  async function json(context: RequestContext, request: IncomingMessage, viewer: Viewer): Promise<unknown> {
    try {
      const body = await read(request, viewer)
      context.requestBytes = body.length
      return parseExactJson(decodeUtf8(body))
    } catch (error) {
      if (error instanceof BadInputError) throw topLevelError('BAD_USER_INPUT', error.message, { status: 400 })
      if (error instanceof RateLimitedError) throw maskError(error)
      if (!(error instanceof BodyRefusedError)) throw error
      if (error.status === 503) throw maskError(new RateLimitedError(error.message, MOST_IDLE_MS))
      throw topLevelError('BAD_USER_INPUT', error.message, { status: error.status })
    }
  }

  return {
    onRequestParse({ request, requestParser, setRequestParser, serverContext }) {
      const { req, viewer } = serverContext
      if (request.method !== 'POST' || requestParser === undefined || req === undefined || viewer === undefined) return
      // This replaces only the reading of the body. Yoga still parses it.
      setRequestParser(() => requestParser({ json: () => json(serverContext, req, viewer) } as Request))
    },
  }
}

/** Returns the owner to whom a viewer's incomplete bodies are charged. */
export const ownerOf = ({ scope, id }: Viewer): string => `${scope} ${id}`
