import { Agent, type Dispatcher, Headers, type RequestInit, type Response, request, fetch as undiciFetch } from 'undici'
import { unlessAborted } from '../../lib/async.ts'
import { messageOf } from '../../lib/errors.ts'
import { mappedStream } from '../../lib/mapped-stream.ts'
import { type AddressGuardOptions, BlockedAddressError, createGuardedConnector } from './guarded-connector.ts'
import { readHttpError } from './http-answer.ts'

export interface GuardedRequest {
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  url: string
  headers?: Record<string, string>
  body?: string | Uint8Array
  /** If set, redirects are not followed. A redirect then counts as a failure, because its status is not 2xx. */
  stays?: true
  /** The time limit for the whole exchange: DNS, connections, redirects and the body. */
  timeoutMs: number
  /** The maximum size of the response body. Defaults to the client's limit. */
  maxBytes?: number
  signal?: AbortSignal
}

export type GuardedFailureCode =
  | 'BLOCKED_ADDRESS'
  | 'BAD_URL'
  | 'TIMED_OUT'
  | 'TOO_LARGE'
  | 'TOO_MANY_REDIRECTS'
  | 'REDIRECTED'
  | 'BAD_STATUS'
  | 'UNREACHABLE'
  | 'CANCELED'

export type GuardedOutcome =
  | { type: 'answer'; status: number; contentType: string; body: Uint8Array }
  /** `message` is a sentence for a model or a person. */
  | {
      type: 'failure'
      code: GuardedFailureCode
      message: string
      /** The response, if the code is BAD_STATUS. */
      response?: { status: number; contentType: string; body: Uint8Array }
    }

/** Sends HTTP requests to untrusted servers, only to public addresses, and with limits on time, size and redirects. */
export interface GuardedHttp {
  /** Sends one request. Never throws: errors and responses other than 2xx are returned as failures. */
  send(request: GuardedRequest): Promise<GuardedOutcome>
  /**
   * A `fetch` function with the same restrictions, for libraries. The size limit is applied to a streamed body as
   * it arrives. Throws as `fetch` does.
   */
  fetch: typeof globalThis.fetch
  /** Aborts all requests in progress. */
  close(): Promise<void>
}

export interface GuardedHttpOptions extends AddressGuardOptions {
  /** Allows requests to private addresses (PARLEY_ALLOW_PRIVATE_TOOLS). */
  allowPrivate?: boolean
  /** The maximum size of a response body for `send`. */
  maxBytes?: number
  /** The maximum size of a response body for `fetch`. */
  maxFetchBytes?: number
}

const MIB = 1_048_576
const MAX_REDIRECTS = 5

/**
 * The headers that are kept on a redirect to another origin. Any other header may contain a secret that is meant
 * only for the first origin.
 */
const HEADERS_FOR_ANY_ORIGIN = new Set(['accept', 'accept-encoding', 'content-type', 'idempotency-key', 'user-agent'])

class GuardedHttpError extends Error {
  readonly code: GuardedFailureCode
  constructor(code: GuardedFailureCode, message: string) {
    super(message)
    this.code = code
  }
}

export function createGuardedHttp(options: GuardedHttpOptions = {}): GuardedHttp {
  const { allowPrivate = false, maxBytes = MIB, maxFetchBytes = 4 * MIB, isAllowed, resolve, ca } = options
  const connect = createGuardedConnector({ isAllowed: allowPrivate ? () => true : isAllowed, resolve, ca })
  // Each request gets a new connection. A server may close a reused connection just when a POST is sent, and a POST
  // must not be sent twice. The request's signal limits the time.
  const dispatcher = new Agent({ connect, pipelining: 0, headersTimeout: 0, bodyTimeout: 0 })

  async function send({ timeoutMs, signal, ...given }: GuardedRequest): Promise<GuardedOutcome> {
    const deadline = AbortSignal.timeout(timeoutMs)
    const stop = signal === undefined ? deadline : AbortSignal.any([signal, deadline])
    try {
      // Without `unlessAborted`, an abort would take effect only once undici is connected, and a connection may
      // take 10 s to fail.
      return await unlessAborted(stop, exchange(given, stop))
    } catch (error) {
      if (signal?.aborted === true) return { type: 'failure', code: 'CANCELED', message: 'The request was canceled.' }
      if (deadline.aborted) {
        return { type: 'failure', code: 'TIMED_OUT', message: `The server did not answer within ${timeoutMs} ms.` }
      }
      return failureOf(error)
    }
  }

  async function exchange(
    given: Omit<GuardedRequest, 'timeoutMs' | 'signal'>,
    signal: AbortSignal,
  ): Promise<GuardedOutcome> {
    let hop = firstHop(given)
    for (let redirects = 0; ; redirects += 1) {
      const { url, method, headers, body } = hop
      const response = await request(url, { dispatcher, method, headers: [...headers].flat(), body, signal })
      const location = response.headers.location
      const leads = isRedirect(response.statusCode) && typeof location === 'string' && given.stays !== true
      if (!leads) return await readAnswer(response, given.maxBytes ?? maxBytes)
      response.body.on('error', () => {}).destroy()
      hop = nextHop(hop, response.statusCode, location, redirects)
    }
  }

  async function guardedFetch(input: string | URL | globalThis.Request, init: globalThis.RequestInit = {}) {
    if (typeof input === 'object' && 'method' in input)
      throw new TypeError('The guarded fetch accepts only a URL, not a Request.')
    const { body, headers, ...rest } = init as RequestInit
    if (body !== undefined && body !== null && typeof body !== 'string') {
      throw new TypeError('The guarded fetch accepts only text as the body.')
    }
    let hop = firstHop({ method: rest.method ?? 'GET', url: String(input), headers, body: body ?? undefined })
    for (let redirects = 0; ; redirects += 1) {
      const { url, method } = hop
      const response = await undiciFetch(url, {
        ...rest,
        method,
        headers: hop.headers,
        body: hop.body,
        redirect: 'manual',
        dispatcher,
      })
      const location = response.headers.get('location')
      if (!isRedirect(response.status) || location === null) return bounded(response, maxFetchBytes)
      await response.body?.cancel()
      if (rest.redirect === 'error')
        throw new GuardedHttpError('REDIRECTED', 'The server redirected a request that must not be repeated elsewhere.')
      hop = nextHop(hop, response.status, location, redirects)
    }
  }

  return {
    send,
    fetch: guardedFetch as unknown as typeof globalThis.fetch,
    close: () => dispatcher.destroy(),
  }
}

interface Hop {
  url: URL
  method: string
  headers: Headers
  body: string | Uint8Array | undefined
}

function firstHop(given: {
  method: string
  url: string
  headers?: RequestInit['headers']
  body?: string | Uint8Array
}): Hop {
  const headers = new Headers(given.headers)
  // Compression is refused because it would circumvent the size limit.
  headers.set('accept-encoding', 'identity')
  return { url: checkedUrl(given.url), method: given.method, headers, body: given.body }
}

function nextHop({ url, method, headers, body }: Hop, status: number, location: string, redirects: number): Hop {
  if (redirects >= MAX_REDIRECTS) {
    throw new GuardedHttpError('TOO_MANY_REDIRECTS', `The server redirected more than ${MAX_REDIRECTS} times.`)
  }
  const target = checkedUrl(location, url)
  // Changes the method as browsers do (https://fetch.spec.whatwg.org/#http-redirect-fetch).
  const becomesGet = status === 303 || ((status === 301 || status === 302) && method === 'POST')
  const kept = [...headers].filter(([name]) => {
    if (becomesGet && name.startsWith('content-')) return false
    return target.origin === url.origin || HEADERS_FOR_ANY_ORIGIN.has(name)
  })
  return {
    url: target,
    method: becomesGet ? 'GET' : method,
    headers: new Headers(kept),
    body: becomesGet ? undefined : body,
  }
}

function isRedirect(status: number): boolean {
  return [301, 302, 303, 307, 308].includes(status)
}

function checkedUrl(text: string, base?: URL): URL {
  const url = URL.parse(text, base?.href)
  if (url === null) throw new GuardedHttpError('BAD_URL', `${JSON.stringify(text.slice(0, 200))} is not a URL.`)
  if (url.protocol !== 'http:' && url.protocol !== 'https:') {
    throw new GuardedHttpError('BAD_URL', `A URL that begins with ${url.protocol} is not allowed; use http: or https:.`)
  }
  if (url.username !== '' || url.password !== '') {
    throw new GuardedHttpError('BAD_URL', 'A URL with a user name or password is not allowed; use headers.')
  }
  return url
}

async function readAnswer(response: Dispatcher.ResponseData, maxBytes: number): Promise<GuardedOutcome> {
  const body = await readBounded(response.body, maxBytes)
  const { statusCode: status, headers } = response
  const contentType = typeof headers['content-type'] === 'string' ? headers['content-type'] : ''
  if (status >= 200 && status <= 299) return { type: 'answer', status, contentType, body }
  const words = readHttpError(contentType, body).words
  const message = `The server answered with status ${status}${words === '' ? '.' : `: ${words}`}`
  return { type: 'failure', code: 'BAD_STATUS', message, response: { status, contentType, body } }
}

async function readBounded(body: AsyncIterable<Buffer>, maxBytes: number): Promise<Uint8Array> {
  const chunks: Buffer[] = []
  let size = 0
  // An error thrown inside the loop destroys the body and its connection.
  for await (const chunk of body) {
    size += chunk.length
    if (size > maxBytes) throw tooLarge(maxBytes)
    chunks.push(chunk)
  }
  return Buffer.concat(chunks)
}

function bounded(response: Response, maxBytes: number): Response | globalThis.Response {
  if (response.body === null) return response
  let size = 0
  const body = mappedStream(response.body as unknown as ReadableStream<Uint8Array>, {
    push(chunk) {
      size += chunk.length
      if (size > maxBytes) throw tooLarge(maxBytes)
      return [chunk]
    },
  })
  return new globalThis.Response(body, {
    status: response.status,
    statusText: response.statusText,
    headers: [...response.headers],
  })
}

function tooLarge(maxBytes: number): GuardedHttpError {
  return new GuardedHttpError('TOO_LARGE', `The server's answer is larger than ${maxBytes} bytes.`)
}

/** Converts an error to a failure. Libraries may have wrapped the errors thrown here. */
export function failureOf(error: unknown): Extract<GuardedOutcome, { type: 'failure' }> {
  let innermost = error
  for (let cause = error; cause instanceof Error; cause = cause.cause) {
    innermost = cause
    if (cause instanceof GuardedHttpError) return { type: 'failure', code: cause.code, message: cause.message }
    if (cause instanceof BlockedAddressError)
      return { type: 'failure', code: 'BLOCKED_ADDRESS', message: cause.message }
    const { code } = cause as { code?: unknown }
    if (code === 'ENOTFOUND' || code === 'EAI_AGAIN') return unreachable('its name has no address')
    if (typeof code === 'string') return unreachable(code)
  }
  return unreachable(messageOf(innermost))
}

function unreachable(reason: string): Extract<GuardedOutcome, { type: 'failure' }> {
  return { type: 'failure', code: 'UNREACHABLE', message: `The server cannot be reached: ${reason}.` }
}
