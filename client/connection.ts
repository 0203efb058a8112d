import { type Client, createClient } from 'graphql-ws/client'
import { errorOf, isUnauthenticatedClose, ParleyError } from './errors.ts'
import { type Operation, textOf } from './graphql.ts'
import { createObservable, type Observable } from './observable.ts'

export interface ConnectionOptions {
  /** Where the server is, `https://parley.example` or with `/graphql`; in a browser, absent: where the page came from. */
  url?: string
  /** The bearer token; a function is asked before each request and each opening of the socket, so that it may be renewed. */
  token: string | (() => string | Promise<string>)
  /** Where the runtime has no WebSocket of its own. */
  webSocketImpl?: unknown
}

export interface Watcher<Data> {
  onData(data: Data): void
  /** It is over, and will not come back. `error` is null where the server has nothing more to say. */
  onEnd(error: ParleyError | null): void
}

/** `idle` until something is watched; `lost` while it is being opened again; `refused` for good: the token is no good. */
export type ConnectionState = 'idle' | 'connecting' | 'live' | 'lost' | 'refused'

/** The API as one viewer has it: requests by HTTP, everything live over one WebSocket. */
export interface Connection extends Observable<ConnectionState> {
  /**
   * Runs a query or mutation.
   * @throws ParleyError for errors of GraphQL, or when the server does not answer. Expected failures of a mutation are in its result: see `payloadOf`.
   */
  ask<Data, Variables>(operation: Operation<Data, Variables>, variables: Variables): Promise<Data>
  /**
   * Subscribes, again after every loss of the connection and every failure of the server that may pass, with `variables` as
   * they are then: whoever moves the cursor in them on misses nothing. Gives the way to stop.
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
/** How long a socket without subscriptions stays open: a page that goes from one space to the next keeps it. */
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
    throw new ParleyError('Say where the server is: createConnection({ url, token }).', 'BAD_INPUT')
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
    throw new ParleyError('The server does not answer. Is it running?', 'NETWORK')
  })
  const answer = await response.json().catch(() => {
    throw new ParleyError(
      `The server answered with HTTP status ${response.status}, and nothing that can be read.`,
      'NETWORK',
    )
  })
  if (answer.errors !== undefined) throw errorOf(answer.errors)
  return answer.data
}

/** Subscribes until it is stopped, ends, or fails for good. */
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
  /** What cannot be read is left out: an error here would end every subscription of the socket. */
  function deliver(data: Data): void {
    try {
      onData(data)
    } catch (failure) {
      // biome-ignore lint/suspicious/noConsole: a library has no log of its own, and its caller did not ask for this
      console.error('An event of the server could not be read.', failure)
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

/** Longer each time, and not the same for everybody. */
function waitMsAfter(failures: number): number {
  return Math.min(500 * 2 ** failures, LONGEST_RETRY_WAIT_MS) * (0.75 + Math.random() / 2)
}

/** One socket for all subscriptions, opened with the first. */
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
