import { type Client, createClient } from 'graphql-ws/client'
import { errorOf, isUnauthenticatedClose, ParleyError } from './errors.ts'
import { type Operation, textOf } from './graphql.ts'
import { createObservable, type Observable } from './observable.ts'

export interface ConnectionOptions {
  /**
   * The server's address, `https://parley.example`, with or without `/graphql`. Default in a browser: the page's
   * origin.
   */
  url?: string
  /**
   * The bearer token. A function is called before each request and each opening of the socket, so that it can
   * renew the token.
   */
  token: string | (() => string | Promise<string>)
  /** A WebSocket implementation, for runtimes without one. */
  webSocketImpl?: unknown
}

export interface Watcher<Data> {
  onData(data: Data): void
  /** The subscription has ended and will not resume. `error` is null if the server completed it. */
  onEnd(error: ParleyError | null): void
}

/**
 * `idle` until the first subscription; `lost` while the socket reconnects; `refused` if the server rejected the
 * token, for good.
 */
export type ConnectionState = 'idle' | 'connecting' | 'live' | 'lost' | 'refused'

/** The API for one viewer: requests over HTTP, subscriptions over one WebSocket. */
export interface Connection extends Observable<ConnectionState> {
  /**
   * Executes a query or mutation. Expected failures of a mutation are part of its result: see `payloadOf`.
   * @throws ParleyError for GraphQL errors, or if the server does not respond
   */
  ask<Data, Variables>(operation: Operation<Data, Variables>, variables: Variables): Promise<Data>
  /**
   * Subscribes. Subscribes again after a lost connection or a temporary server error, with the current values of
   * `variables`: update the cursor in them to miss nothing. Returns a function that unsubscribes.
   */
  watch<Data, Variables extends Record<string, unknown>>(
    operation: Operation<Data, Variables>,
    variables: Variables,
    watcher: Watcher<Data>,
  ): () => void
  close(): void
}

const KEEP_ALIVE_MS = 12_000
const LONGEST_RETRY_WAIT_MS = 8000
/**
 * How long a socket without subscriptions stays open, so that a page that changes from one space to another
 * keeps it.
 */
const LINGER_MS = 5000
const MAY_PASS = ['INTERNAL_SERVER_ERROR', 'RATE_LIMITED']

export function createConnection(options: ConnectionOptions): Connection {
  const endpoint = endpointOf(options.url)
  const authorization = async () =>
    `Bearer ${typeof options.token === 'function' ? await options.token() : options.token}`
  let socket: Client | null = null
  let state: ConnectionState = 'idle'
  const observable = createObservable({ read: () => state })
  const tell = (next: ConnectionState) => {
    if (state === next || state === 'refused') return
    state = next
    observable.changed()
  }

  return {
    getState: observable.getState,
    subscribe: observable.subscribe,
    ask: (operation, variables) => post(endpoint, authorization, { query: textOf(operation), variables }),
    watch(operation, variables, watcher) {
      socket ??= openSocket(endpoint, authorization, options.webSocketImpl, tell)
      return follow(socket, { query: textOf(operation), variables }, watcher)
    },
    close() {
      void socket?.dispose()
      socket = null
    },
  }
}

function endpointOf(url: string | undefined): string {
  const base = url ?? (typeof location === 'undefined' ? undefined : location.origin)
  if (base === undefined)
    throw new ParleyError('The url is missing. Call createConnection({ url, token }).', 'BAD_INPUT')
  const { origin, pathname } = new URL(base)
  return `${origin}${pathname === '/' ? '/graphql' : pathname}`
}

type Body = { query: string; variables: unknown }

async function post<Data>(endpoint: string, authorization: () => Promise<string>, body: Body): Promise<Data> {
  const headers = {
    'content-type': 'application/json',
    accept: 'application/graphql-response+json',
    authorization: await authorization(),
  }
  const response = await fetch(endpoint, { method: 'POST', headers, body: JSON.stringify(body) }).catch(() => {
    throw new ParleyError('The server does not respond. Is it running?', 'NETWORK')
  })
  const answer = await response.json().catch(() => {
    throw new ParleyError(`The server responded with HTTP status ${response.status}, but not with JSON.`, 'NETWORK')
  })
  if (answer.errors !== undefined) throw errorOf(answer.errors)
  return answer.data
}

/** Subscribes until stopped, completed, or failed for good. */
function follow<Data>(
  client: Client,
  payload: { query: string; variables: Record<string, unknown> },
  { onData, onEnd }: Watcher<Data>,
): () => void {
  let isOver = false
  let stop = () => {}
  let failures = 0
  let timer: ReturnType<typeof setTimeout> | undefined
  function end(error: ParleyError | null): void {
    if (isOver) return
    isOver = true
    stop()
    onEnd(error)
  }
  /** Catches what `onData` throws, which would end every subscription of the socket. */
  function deliver(data: Data): void {
    try {
      onData(data)
    } catch (failure) {
      // biome-ignore lint/suspicious/noConsole: a library has no log of its own, and its caller did not ask for this
      console.error('Could not process an event from the server.', failure)
    }
  }
  function begin(): void {
    if (isOver) return
    stop = client.subscribe<Data>(payload, {
      next({ data }) {
        failures = 0
        if (data && !isOver) deliver(data)
      },
      error(failure) {
        const error = errorOf(failure)
        if (!Array.isArray(failure) || !MAY_PASS.includes(error.code)) return end(error)
        const waitMs = Math.max(error.retryAfterMs ?? 0, waitMsAfter(failures))
        failures += 1
        timer = setTimeout(begin, waitMs)
      },
      complete: () => end(null),
    })
  }
  begin()
  return () => {
    isOver = true
    clearTimeout(timer)
    stop()
  }
}

/** Exponential backoff with jitter, in milliseconds. */
function waitMsAfter(failures: number): number {
  return Math.min(500 * 2 ** failures, LONGEST_RETRY_WAIT_MS) * (0.75 + Math.random() / 2)
}

/** Creates the socket for all subscriptions. It opens with the first subscription. */
function openSocket(
  endpoint: string,
  authorization: () => Promise<string>,
  webSocketImpl: unknown,
  tell: (state: ConnectionState) => void,
): Client {
  return createClient({
    url: endpoint.replace(/^http/, 'ws'),
    webSocketImpl,
    connectionParams: async () => ({ authorization: await authorization() }),
    keepAlive: KEEP_ALIVE_MS,
    lazyCloseTimeout: LINGER_MS,
    retryAttempts: Number.POSITIVE_INFINITY,
    retryWait: (retries) => new Promise((resolve) => setTimeout(resolve, waitMsAfter(retries))),
    shouldRetry: (failure) => !isUnauthenticatedClose(failure),
    on: {
      connecting: (isRetry) => tell(isRetry ? 'lost' : 'connecting'),
      connected: () => tell('live'),
      closed: (event) => tell(isUnauthenticatedClose(event) ? 'refused' : 'lost'),
    },
  })
}
