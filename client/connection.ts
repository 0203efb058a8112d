import { endpointOf } from './endpoint.ts'
import { errorOf, ParleyError } from './errors.ts'
import { type Operation, textOf } from './graphql.ts'
import { createObservable, type Observable } from './observable.ts'
import { type ConnectionState, createRenewedSocket, type RenewedSocket, waitMsAfter } from './renewed-socket.ts'

export interface ConnectionOptions {
  /**
   * The server's address, `https://parley.example` or `https://example.com/prefix`, with or without `/graphql`. In a
   * browser, the default is the page's origin.
   */
  url?: string
  /**
   * The bearer token, or a function that returns it. The function is called before each request and each time the socket is
   * opened, so that it can renew the token. When the socket's token expires, a new socket with a new token continues all
   * subscriptions. If the function fails or takes more than 10 s, a request fails with its error; subscriptions wait, and the
   * function is called again with a growing delay. In a page served by Parley, the token may be absent: the session cookie is
   * then used (`POST /auth/token` opens a session).
   */
  token?: string | (() => string | Promise<string>) | undefined
  /** A WebSocket implementation, for runtimes without one, such as Node before version 22. */
  webSocketImpl?: unknown
}

export interface Watcher<Data> {
  onData(data: Data): void
  /** Called when the subscription has ended and will not resume. `error` is null if the server completed it. */
  onEnd(error: ParleyError | null): void
}

/** The API for one viewer: requests over HTTP, subscriptions over one WebSocket. */
export interface Connection extends Observable<ConnectionState> {
  /**
   * Executes a query or mutation. Expected failures of a mutation are part of its result: see `payloadOf`.
   * @throws ParleyError for GraphQL errors, or if the server does not respond
   */
  ask<Data, Variables>(operation: Operation<Data, Variables>, variables: Variables): Promise<Data>
  /**
   * Subscribes, and subscribes again after a lost connection or a temporary server error. A new attempt uses the current values
   * of `variables`, so update the cursor in them to miss no event. Returns a function that unsubscribes.
   */
  watch<Data, Variables extends Record<string, unknown>>(
    operation: Operation<Data, Variables>,
    variables: Variables,
    watcher: Watcher<Data>,
  ): () => void
  close(): void
}

const MAY_PASS = ['INTERNAL_SERVER_ERROR', 'RATE_LIMITED']

export function createConnection(options: ConnectionOptions): Connection {
  const endpoint = endpointOf(options.url)
  const authorization = async () => {
    const token = typeof options.token === 'function' ? await options.token() : options.token
    return token === undefined ? null : `Bearer ${token}`
  }
  let state: ConnectionState = 'idle'
  const observable = createObservable({ read: () => state })
  const socket = createRenewedSocket({
    url: endpoint.replace(/^http/, 'ws'),
    authorization,
    canRenew: typeof options.token === 'function',
    webSocketImpl: options.webSocketImpl,
    tell(next) {
      if (state === next || state === 'refused') return
      state = next
      observable.changed()
    },
  })

  return {
    getState: observable.getState,
    subscribe: observable.subscribe,
    ask: (operation, variables) => post(endpoint, authorization, { query: textOf(operation), variables }),
    watch: (operation, variables, watcher) => follow(socket, { query: textOf(operation), variables }, watcher),
    close: socket.close,
  }
}

type Body = { query: string; variables: unknown }

async function post<Data>(endpoint: string, authorization: () => Promise<string | null>, body: Body): Promise<Data> {
  const bearer = await authorization()
  const headers = {
    'content-type': 'application/json',
    accept: 'application/graphql-response+json',
    // Without a token, the browser adds the session cookie, which the server accepts only together with this header.
    ...(bearer === null ? { 'x-parley-csrf': '1' } : { authorization: bearer }),
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

/** Subscribes until the subscription is stopped, completes, or fails permanently. */
function follow<Data>(
  socket: RenewedSocket,
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
  /** Calls `onData` and catches its errors. An uncaught error would end every subscription of the socket. */
  function deliver(data: Data): void {
    try {
      onData(data)
    } catch (failure) {
      // biome-ignore lint/suspicious/noConsole: this library has no logger, and the caller has no handler for this error
      console.error('Could not process an event from the server.', failure)
    }
  }
  function begin(): void {
    if (isOver) return
    const client = socket.client()
    stop = client.subscribe<Data>(payload, {
      next({ data }) {
        failures = 0
        socket.accept(client)
        if (data && !isOver) deliver(data)
      },
      error(failure) {
        const error = errorOf(failure)
        if (error.code === 'UNAUTHENTICATED' && !isOver && socket.renew(client)) return begin()
        if (!Array.isArray(failure) || !MAY_PASS.includes(error.code)) return end(error)
        const waitMs = Math.max(error.retryAfterMs ?? 0, waitMsAfter(failures))
        failures += 1
        timer = setTimeout(begin, waitMs)
      },
      complete: () => (socket.isReplaced(client) ? begin() : end(null)),
    })
  }
  begin()
  return () => {
    isOver = true
    clearTimeout(timer)
    stop()
  }
}
