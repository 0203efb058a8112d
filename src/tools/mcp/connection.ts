import { AsyncLocalStorage } from 'node:async_hooks'
import { createMCPClient, type ListToolsResult, type MCPClient, MCPClientError } from '@ai-sdk/mcp'
import { unlessAborted } from '../../lib/async.ts'
import { failureOf, type GuardedHttp } from '../custom/guarded-http.ts'
import { type McpOutcome, readResult } from './results.ts'

/** The address of a server, and the headers that authenticate us. */
export interface McpAddress {
  url: string
  headers: Record<string, string>
}

export interface McpCallOptions {
  /** The request's `Idempotency-Key`. A call that is repeated after a crash has the same one. */
  callId: string
  timeoutMs: number
  signal: AbortSignal
}

/** The client of one server. It connects on demand, and is discarded after a failure. */
export interface McpConnection {
  /** Lists the server's tools. @throws Error with a message for people */
  list(timeoutMs: number): Promise<ListToolsResult['tools']>
  /** Calls a tool by the server's name for it. Never throws. */
  call(toolName: string, input: Record<string, unknown>, options: McpCallOptions): Promise<McpOutcome>
  /** Discards the client, and ends the server's session if that works within a second. */
  disconnect(): Promise<void>
}

const CONNECT_TIMEOUT_MS = 5_000

/** The maximum number of pages of a list, in case a server repeats itself. */
const MOST_PAGES = 20

export function createMcpConnection({ url, headers }: McpAddress, http: GuardedHttp): McpConnection {
  /** MCP has no field for an idempotency key, so it is sent as an HTTP header. */
  const callBeingMade = new AsyncLocalStorage<string>()
  let client: Promise<MCPClient> | null = null
  let stop = new AbortController()

  const withKey: typeof http.fetch = (input, init) => {
    const key = callBeingMade.getStore()
    if (key === undefined || init?.method !== 'POST') return http.fetch(input, init)
    const withIt = new Headers(init.headers)
    withIt.set('idempotency-key', key)
    return http.fetch(input, { ...init, headers: withIt })
  }

  function connect(): Promise<MCPClient> {
    if (client !== null) return client
    stop = new AbortController()
    const connecting = createMCPClient({
      transport: { type: 'http', url, headers, fetch: withKey },
      clientName: 'parley',
      // A signal of its own, not that of the first caller: other callers may wait for the same client.
      initializationOptions: { timeout: CONNECT_TIMEOUT_MS, signal: stop.signal },
      // Ignore errors outside of requests: they concern the notification stream, which we do not use.
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
    try {
      return await unlessAborted(signal, listPages(await unlessAborted(signal, connect()), signal))
    } catch (error) {
      throw new Error(signal.aborted ? lateAfter(timeoutMs) : describe(error).message, { cause: error })
    }
  }

  async function callOnce(request: Parameters<MCPClient['callTool']>[0]) {
    const connected = connect()
    try {
      return await (await connected).callTool(request)
    } catch (error) {
      if (!isSessionExpired(error)) throw error
      // The session expired, so the server did not execute the call: the only failure after which it may be
      // sent again.
      letGoOf(connected)
      return await (await connect()).callTool(request)
    }
  }

  return {
    list,

    async call(toolName, input, { callId, timeoutMs, signal }) {
      const deadline = AbortSignal.timeout(timeoutMs)
      const ended = AbortSignal.any([signal, deadline])
      const request = { name: toolName, arguments: input, options: { signal: ended } }
      try {
        return readResult(
          await unlessAborted(
            ended,
            callBeingMade.run(callId, () => callOnce(request)),
          ),
        )
      } catch (error) {
        if (signal.aborted) return { type: 'failure', code: 'CANCELED', message: 'The call was canceled.' }
        if (deadline.aborted) return { type: 'failure', code: 'TIMED_OUT', message: lateAfter(timeoutMs) }
        const failure = describe(error)
        // The server answered with an error: keep the connection.
        if (failure.code !== 'TOOL_FAILED') letGoOf(client)
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

function isSessionExpired(error: unknown): boolean {
  return MCPClientError.isInstance(error) && error.statusCode === 404 && error.message.includes('session expired')
}

function lateAfter(timeoutMs: number): string {
  return `The server did not answer within ${timeoutMs} ms.`
}

function describe(error: unknown): { code: string; message: string } {
  if (MCPClientError.isInstance(error) && error.code !== undefined)
    return { code: 'TOOL_FAILED', message: error.message }
  if (MCPClientError.isInstance(error) && error.statusCode !== undefined) {
    return { code: 'BAD_STATUS', message: `The server answered with status ${error.statusCode}.` }
  }
  const { code, message } = failureOf(error)
  return { code, message }
}
