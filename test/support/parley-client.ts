import { type Client, createClient } from 'graphql-ws'
import WebSocket from 'ws'

/** A GraphQL operation with the types of its data and variables, created by `graphql(…)` in `generated/`. */
export interface Operation<Data, Variables> {
  toString(): string
  __apiType?: (variables: Variables) => Data
}

/** The raw response to a request. */
export interface Answer<Data> {
  status: number
  data?: Data | null
  errors?: { message: string; path?: (string | number)[]; extensions?: Record<string, unknown> }[]
}

/** A subscription that records its events. */
export interface LiveEvents<Event> {
  /** The events so far, oldest first. */
  seen: Event[]
  /**
   * Resolves to the first event, past or future, that meets the condition. Rejects if the subscription ends before such an
   * event.
   */
  first<Found extends Event>(condition: (event: Event) => event is Found): Promise<Found>
  first(condition: (event: Event) => boolean): Promise<Event>
  /** Settles when the subscription ends: with null if it completed, otherwise with its error. */
  ended: Promise<unknown>
  stop(): void
}

/**
 * A client of a running Parley server. Operations use HTTP. Subscriptions share one WebSocket, which opens with the first one.
 */
export interface ParleyClient {
  /** Sends an operation. @throws with the errors of the response, if it has any */
  send<Data, Variables>(operation: Operation<Data, Variables>, variables: Variables): Promise<Data>
  /** Sends an operation, or any text, and returns the raw response. */
  ask<Data = unknown>(operation: { toString(): string }, variables?: object): Promise<Answer<Data>>
  /** Subscribes. `onEvent` is called with each event before any waiting promise resolves. */
  subscribe<Data extends object, Variables>(
    operation: Operation<Data, Variables>,
    variables: Variables,
    onEvent?: (event: Data) => void,
  ): LiveEvents<Data>
  /** Resolves once the WebSocket is open and acknowledged. */
  connect(): Promise<void>
  close(): Promise<void>
}

export interface ParleyClientOptions {
  /** `http://127.0.0.1:<port>`, without a path. */
  origin: string
  token: string
}

export function createParleyClient({ origin, token }: ParleyClientOptions): ParleyClient {
  const socket = createClient({
    url: `${origin.replace(/^http/, 'ws')}/graphql`,
    webSocketImpl: WebSocket,
    connectionParams: { authorization: `Bearer ${token}` },
    retryAttempts: 0,
    lazyCloseTimeout: 60_000,
  })
  async function ask<Data>(operation: { toString(): string }, variables?: object): Promise<Answer<Data>> {
    const response = await fetch(`${origin}/graphql`, {
      method: 'POST',
      headers: {
        accept: 'application/graphql-response+json',
        'content-type': 'application/json',
        authorization: `Bearer ${token}`,
      },
      body: JSON.stringify({ query: operation.toString(), variables }),
    })
    return { status: response.status, ...((await response.json()) as object) }
  }
  return {
    ask,
    async send<Data, Variables>(operation: Operation<Data, Variables>, variables: Variables) {
      const { data, errors } = await ask<Data>(operation, variables as object)
      if (errors || !data) throw new Error(`${operation}\nanswered ${JSON.stringify(errors)}`)
      return data
    },
    subscribe: (operation, variables, onEvent) => follow(socket, operation.toString(), variables as object, onEvent),
    connect() {
      return new Promise((resolve, reject) => {
        const done = socket.on('connected', () => resolve(done()))
        socket.on('closed', reject)
        socket.on('error', reject)
        // The socket opens with its first operation, so send an operation that ends at once.
        socket.subscribe({ query: '{ __typename }' }, { next() {}, error: reject, complete() {} })
      })
    },
    async close() {
      await socket.dispose()
    },
  }
}

function follow<Data extends object>(
  socket: Client,
  query: string,
  variables: object,
  onEvent?: (event: Data) => void,
): LiveEvents<Data> {
  const seen: Data[] = []
  const waiting = new Set<{ look(event: Data): boolean; reject(error: unknown): void }>()
  const { promise: ended, resolve: end } = Promise.withResolvers<unknown>()
  let rejection: unknown
  const over = (reason: unknown) => {
    rejection = reason ?? new Error('the subscription completed')
    for (const one of waiting) one.reject(rejection)
    waiting.clear()
    end(reason)
  }
  const stop = socket.subscribe<Data>(
    { query, variables: variables as Record<string, unknown> },
    {
      next({ data, errors }) {
        if (errors || !data) return over(errors)
        onEvent?.(data)
        seen.push(data)
        for (const one of waiting) if (one.look(data)) waiting.delete(one)
      },
      error: over,
      complete: () => over(null),
    },
  )
  return {
    seen,
    ended,
    stop,
    first: (condition: (event: Data) => boolean) =>
      new Promise<never>((resolve, reject) => {
        const past = seen.find(condition)
        if (past) return resolve(past as never)
        if (rejection) return reject(rejection)
        const look = (event: Data) => {
          if (!condition(event)) return false
          resolve(event as never)
          return true
        }
        waiting.add({ look, reject })
      }),
  }
}
