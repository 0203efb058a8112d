import { type Client, createClient } from 'graphql-ws/client'
import { isUnauthenticatedClose, ParleyError } from './errors.ts'

/**
 * `idle` until the first subscription; `lost` while the socket reconnects; `refused`, which is final, if the server
 * rejected both the token and its renewal.
 */
export type ConnectionState = 'idle' | 'connecting' | 'live' | 'lost' | 'refused'

export interface RenewedSocketOptions {
  url: string
  /**
   * Returns the token; null to use the session cookie. Called each time before the socket is opened, and again later if the
   * call fails.
   */
  authorization(): Promise<string | null>
  /** Whether `authorization` may return a different token at the next call. */
  canRenew: boolean
  webSocketImpl: unknown
  /** How long a call of `authorization` may take. */
  tokenTimeoutMs?: number
  tell(state: ConnectionState): void
}

/** Manages the socket of all subscriptions. When the socket's token expires, another socket with a new token replaces it. */
export interface RenewedSocket {
  /** Returns the client of the current socket, which opens with its first subscription. @throws ParleyError */
  client(): Client
  /** Call this for each result, which proves that the server has accepted the socket's token. */
  accept(client: Client): void
  /**
   * Replaces the socket after the server rejected the client's token.
   * @returns false if that token was already a renewed one, so that the refusal is permanent
   */
  renew(client: Client): boolean
  /** Returns whether the client was replaced, so that its subscriptions continue with the current client. */
  isReplaced(client: Client): boolean
  close(): void
}

const KEEP_ALIVE_MS = 12_000
const LONGEST_RETRY_WAIT_MS = 8000
/**
 * How long a socket without subscriptions stays open, so that a page that switches from one space to
 * another keeps it.
 */
const LINGER_MS = 5000
/** The time limit of a token function, which may hang when the network connection is lost. */
const TOKEN_TIMEOUT_MS = 10_000
/**
 * The code for closing a socket that has no token. After this code, graphql-ws opens another socket; after its own codes, it
 * does not.
 */
const NO_TOKEN_CLOSE = 4900
/** After this time, the token of an open socket counts as accepted, even without a result. */
const ACCEPTED_AFTER_MS = 2000

export function createRenewedSocket(options: RenewedSocketOptions): RenewedSocket {
  const { canRenew, tell } = options
  let current: Client | null = null
  const replaced = new WeakSet<Client>()
  /** Whether the current socket has replaced another one, and the server has not accepted its token yet. */
  let isOnTrial = false
  let connectedAt = Number.POSITIVE_INFINITY

  const mayRenew = () => canRenew && (!isOnTrial || Date.now() - connectedAt > ACCEPTED_AFTER_MS)

  function open(): Client {
    connectedAt = Number.POSITIVE_INFINITY
    const isFirst = !isOnTrial
    const client = openSocket(options, {
      connecting(isRetry) {
        if (client === current) tell(isRetry || !isFirst ? 'lost' : 'connecting')
      },
      connected() {
        if (client !== current) return
        connectedAt = Date.now()
        tell('live')
      },
      closed(event) {
        if (client === current) tell(isUnauthenticatedClose(event) && !mayRenew() ? 'refused' : 'lost')
      },
    })
    return client
  }

  return {
    client() {
      current ??= open()
      return current
    },
    accept(client) {
      if (client === current) isOnTrial = false
    },
    renew(client) {
      if (replaced.has(client)) return true
      if (client !== current) return false
      if (!mayRenew()) {
        tell('refused')
        return false
      }
      replaced.add(client)
      isOnTrial = true
      current = open()
      tell('lost')
      dispose(client)
      return true
    },
    isReplaced: (client) => replaced.has(client),
    close() {
      if (current !== null) dispose(current)
      current = null
    },
  }
}

/** Closes a client. Ignores the error of a socket that could not be opened, because its subscriptions report it. */
function dispose(client: Client): void {
  Promise.resolve(client.dispose()).catch(() => {})
}

/** Returns the wait before the next attempt in ms: exponential backoff with jitter. */
export function waitMsAfter(failures: number): number {
  return Math.min(500 * 2 ** failures, LONGEST_RETRY_WAIT_MS) * (0.75 + Math.random() / 2)
}

interface SocketListeners {
  connecting(isRetry: boolean): void
  connected(): void
  closed(event: unknown): void
}

/** @throws ParleyError in a runtime without WebSocket */
function openSocket(options: RenewedSocketOptions, on: SocketListeners): Client {
  const { url, authorization, webSocketImpl, tokenTimeoutMs = TOKEN_TIMEOUT_MS } = options
  if (webSocketImpl === undefined && typeof WebSocket === 'undefined') throw new ParleyError(NO_WEB_SOCKET, 'BAD_INPUT')
  /** The token of the socket that is being opened; undefined if the token function failed. */
  let bearer: string | null | undefined
  return createClient({
    // Fetch the token before the socket opens, because the server soon closes a socket on which it receives no token.
    url: async () => {
      bearer = await inTime(authorization(), tokenTimeoutMs).catch((failure) => {
        // biome-ignore lint/suspicious/noConsole: this library has no logger, and the connection tries again
        console.warn('The token function failed. The connection will call the function again soon.', failure)
        return undefined
      })
      return url
    },
    webSocketImpl,
    connectionParams: () => (bearer == null ? {} : { authorization: bearer }),
    keepAlive: KEEP_ALIVE_MS,
    lazyCloseTimeout: LINGER_MS,
    retryAttempts: Number.POSITIVE_INFINITY,
    retryWait: (retries) => new Promise((resolve) => setTimeout(resolve, waitMsAfter(retries))),
    shouldRetry: (failure) => !isUnauthenticatedClose(failure),
    on: {
      ...on,
      opened(socket) {
        if (bearer === undefined) (socket as WebSocket).close(NO_TOKEN_CLOSE, 'No token')
      },
    },
  })
}

/** @throws Error if the promise does not settle in time */
function inTime<T>(promise: Promise<T>, timeoutMs: number): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined
  const isLate = new Promise<never>((_, reject) => {
    timer = setTimeout(
      () => reject(new Error(`The token function did not return a token within ${timeoutMs / 1000} s.`)),
      timeoutMs,
    )
  })
  return Promise.race([promise, isLate]).finally(() => clearTimeout(timer))
}

const NO_WEB_SOCKET =
  'This runtime has no WebSocket, which live updates need. Use Node 22 or newer, or install the package ws and pass it: ' +
  'createConnection({ url, token, webSocketImpl: WebSocket }).'
