import { AsyncLocalStorage } from 'node:async_hooks'
import { createMCPClient, type ListToolsResult, type MCPClient, MCPClientError } from '@ai-sdk/mcp'
import { unlessAborted } from '../../lib/async.ts'
import { cut } from '../../lib/json.ts'
import { failureOf, type GuardedHttp } from '../custom/guarded-http.ts'
import { type McpAuthProvider, oauthFetch } from './oauth.ts'
import { type McpOutcome, readResult } from './results.ts'

/** The URL of a server, and the headers that authenticate Parley. */
export interface McpAddress {
  url: string
  headers: Record<string, string>
  /** Sends and refreshes the token. Set for a server that requires OAuth. */
  authProvider?: McpAuthProvider
}

export interface McpCallOptions {
  /** The request's `Idempotency-Key`, which stays the same if the call is repeated after a crash. */
  callId: string
  timeoutMs: number
  signal: AbortSignal
  /** Called with the rejected access token if the server rejects the request as unauthorized. */
  refused?(accessToken: string): void
}

/** The client of one server. It connects on demand, and is discarded after a failure. */
export interface McpConnection {
  /** Lists the server's tools. @throws Error whose message is written for people */
  list(timeoutMs: number): Promise<ListToolsResult['tools']>
  /** Calls a tool by the server's name for it. Never throws. */
  call(toolName: string, input: Record<string, unknown>, options: McpCallOptions): Promise<McpOutcome>
  /** Discards the client. Ends the session at the server, waiting at most a second. */
  disconnect(): Promise<void>
}

const CONNECT_TIMEOUT_MS = 5_000

const LONGEST_CHALLENGE = 300

/**
 * How many pages of a list are read at most. There is a maximum because a server may return the same pages again
 * and again.
 */
const MOST_PAGES = 20

/** A request to the server. Contains information from its HTTP responses that the MCP messages lack. */
interface Request {
  /**
   * The idempotency key, sent as an HTTP header because MCP has no field for it. Null if the request can safely be
   * repeated.
   */
  key: string | null
  /** Whether the server rejected the session id in the request. */
  isSessionRefused: boolean
  /**
   * The `www-authenticate` header of a server that requires credentials, which may be empty; null if the server
   * requires none.
   */
  challenge: string | null
  /** The last access token that the server rejected. */
  refusedToken: string | null
}

/** The status codes with which servers report an unknown session. The specification defines only 404. */
const SESSION_REFUSED = [400, 404, 410]

export function createMcpConnection(
  { url, headers: given, authProvider }: McpAddress,
  http: GuardedHttp,
): McpConnection {
  // The provider's token replaces a stored `authorization` header.
  const own = Object.entries(given).filter(
    ([name]) => authProvider === undefined || name.toLowerCase() !== 'authorization',
  )
  const headers = Object.fromEntries(own)
  const send = oauthFetch(http)

  const current = new AsyncLocalStorage<Request>()
  let client: Promise<MCPClient> | null = null
  let stop = new AbortController()

  const untilStopped = (init: RequestInit | undefined) =>
    AbortSignal.any([stop.signal, ...(init?.signal ? [init.signal] : [])])

  const observed: typeof http.fetch = async (input, init) => {
    const request = current.getStore()
    const isOurs = String(input) === new URL(url).href
    const form = init?.body
    if (authProvider !== undefined && form instanceof URLSearchParams && form.get('grant_type') === 'refresh_token')
      return authProvider.refresh(form, () => send(input, init), untilStopped(init))
    if (request === undefined || !isOurs || init?.method !== 'POST') return send(input, init)
    const sent = new Headers(init.headers)
    if (request.key !== null) sent.set('idempotency-key', request.key)
    const response = await http.fetch(input, { ...init, headers: sent, redirect: 'follow' })
    if (SESSION_REFUSED.includes(response.status) && sent.has('mcp-session-id')) request.isSessionRefused = true
    // After the token was refreshed, a successful response clears an earlier challenge.
    if (response.status === 401) request.refusedToken = bearerIn(sent)
    request.challenge = response.status === 401 ? (response.headers.get('www-authenticate') ?? '') : null
    return response
  }

  function connect(): Promise<MCPClient> {
    if (client !== null) return client
    stop = new AbortController()
    const connecting = createMCPClient({
      transport: {
        type: 'http',
        url,
        headers,
        fetch: observed,
        ...(authProvider === undefined ? {} : { authProvider }),
      },
      clientName: 'parley',
      // The signal of the first caller is not used, because other callers may wait for the same client.
      initializationOptions: { timeout: CONNECT_TIMEOUT_MS, signal: stop.signal },
      // Errors outside requests concern the notification stream, which Parley does not use.
      onUncaughtError: () => {},
    })
    connecting.catch(() => letGoOf(connecting))
    client = connecting
    return connecting
  }

  function letGoOf(connected: Promise<MCPClient> | null): void {
    if (client === connected) client = null
  }

  async function list(timeoutMs: number): Promise<ListToolsResult['tools']> {
    const signal = AbortSignal.timeout(timeoutMs)
    const request: Request = { key: null, isSessionRefused: false, challenge: null, refusedToken: null }
    try {
      return await unlessAborted(
        signal,
        inSession(request, (open) => listPages(open, signal)),
      )
    } catch (error) {
      throw new Error(signal.aborted ? lateAfter(timeoutMs) : describe(error, request).message, { cause: error })
    }
  }

  /**
   * Makes a request. A server that rejects the session has not executed the request, so the request is sent once
   * more in a new session. After any other failure, it must not be sent again.
   */
  function inSession<T>(request: Request, make: (open: MCPClient) => Promise<T>): Promise<T> {
    return current.run(request, async () => {
      const connected = connect()
      try {
        return await make(await connected)
      } catch (error) {
        if (!request.isSessionRefused) throw error
        letGoOf(connected)
        return await make(await connect())
      }
    })
  }

  /** Describes a failure for a model or a person. */
  function describe(error: unknown, { challenge }: Request): { code: string; message: string } {
    const isUnauthorized = MCPClientError.isInstance(error) && error.statusCode === 401
    if (challenge !== null || isUnauthorized)
      return { code: 'UNAUTHORIZED', message: wordsOfChallenge(challenge ?? '') }
    if (MCPClientError.isInstance(error) && error.code !== undefined)
      return { code: 'TOOL_FAILED', message: error.message }
    if (MCPClientError.isInstance(error) && error.statusCode !== undefined)
      return { code: 'BAD_STATUS', message: `The server answered with status ${error.statusCode}.` }
    const { code, message } = failureOf(error)
    return { code, message }
  }

  function wordsOfChallenge(challenge: string): string {
    const given = Object.keys(headers).find((name) => name.toLowerCase() === 'authorization')
    const wanted =
      challenge === '' ? '' : ` The server asks for: ${cut(challenge.replace(/\s+/g, ' '), LONGEST_CHALLENGE)}.`
    if (authProvider !== undefined)
      return `The server ${new URL(url).host} requires authorization.${wanted} An admin has to connect to the server again.`
    const remedy =
      given === undefined
        ? 'An admin has to set its header authorization.'
        : `An admin has to set a valid value for its header ${given}.`
    return `The server ${new URL(url).host} requires credentials (status 401).${wanted} ${remedy}`
  }

  return {
    list,

    async call(toolName, input, { callId, timeoutMs, signal, refused }) {
      const deadline = AbortSignal.timeout(timeoutMs)
      const ended = AbortSignal.any([signal, deadline])
      const request: Request = { key: callId, isSessionRefused: false, challenge: null, refusedToken: null }
      const made = inSession(request, (open) =>
        open.callTool({ name: toolName, arguments: input, options: { signal: ended } }),
      )
      try {
        return readResult(await unlessAborted(ended, made))
      } catch (error) {
        if (signal.aborted) return { type: 'failure', code: 'CANCELED', message: 'The call was canceled.' }
        if (deadline.aborted) return { type: 'failure', code: 'TIMED_OUT', message: lateAfter(timeoutMs) }
        const failure = describe(error, request)
        // TOOL_FAILED means that the server has responded, so the connection is kept.
        if (failure.code !== 'TOOL_FAILED') letGoOf(client)
        if (failure.code === 'UNAUTHORIZED' && request.refusedToken !== null) refused?.(request.refusedToken)
        return { type: 'failure', ...failure }
      }
    },

    async disconnect() {
      const connected = client
      client = null
      stop.abort()
      const closed = connected?.then((open) => open.close()) ?? Promise.resolve()
      await unlessAborted(AbortSignal.timeout(1_000), closed).catch(() => {})
    },
  }
}

function bearerIn(headers: Headers): string | null {
  const [, token = null] = /^Bearer (.+)$/i.exec(headers.get('authorization') ?? '') ?? []
  return token
}

async function listPages(client: MCPClient, signal: AbortSignal): Promise<ListToolsResult['tools']> {
  const tools: ListToolsResult['tools'] = []
  let cursor: string | undefined
  for (let page = 0; page < MOST_PAGES; page += 1) {
    const params = cursor === undefined ? undefined : { cursor }
    const listed = await client.listTools({ params, options: { signal } })
    tools.push(...listed.tools)
    cursor = listed.nextCursor ?? undefined
    if (cursor === undefined) break
  }
  return tools
}

function lateAfter(timeoutMs: number): string {
  return `The server did not answer within ${timeoutMs} ms.`
}
