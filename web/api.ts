import { type Client, createClient } from 'graphql-ws/client'
import { textOf } from './graphql.ts'
import { Refusal } from './refusal.ts'

/** What `graphql(…)` gives: the text of an operation, with the types of what goes in and comes out. */
export interface Operation<Data, Variables> {
  toString(): string
  __apiType?: (variables: Variables) => Data
}

export interface Watcher<Data> {
  onData(data: Data): void
  /** It is over, and will not come back. `error` is null where the server has nothing more to say. */
  onEnd(error: unknown): void
}

export type Connection = 'connecting' | 'live' | 'lost'

/** The API as one viewer has it. */
export interface Api {
  /** Runs a query or mutation. @throws Refusal for whatever the server does not do, or when it does not answer. */
  run<Data, Variables>(operation: Operation<Data, Variables>, variables: Variables): Promise<Data>
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
const UNAUTHENTICATED_CLOSE = 4403

export function createApi(token: string, onConnection: (connection: Connection) => void): Api {
  const authorization = `Bearer ${token}`
  let socket: Client | null = null
  let isClosed = false
  const tell = (connection: Connection) => isClosed || onConnection(connection)

  return {
    async run(operation, variables) {
      const response = await fetch('/graphql', {
        method: 'POST',
        headers: { 'content-type': 'application/json', accept: 'application/graphql-response+json', authorization },
        body: JSON.stringify({ query: textOf(operation), variables }),
      }).catch(() => {
        throw new Refusal('The server does not answer. Is it running?')
      })
      const answer = await response.json().catch(() => {
        throw new Refusal(`The server answered with HTTP status ${response.status}, and nothing that can be read.`)
      })
      if (answer.errors !== undefined) throw answer.errors
      return answer.data
    },
    watch(operation, variables, { onData, onEnd }) {
      socket ??= connect(authorization, tell)
      const client = socket
      let isOver = false
      let stop = () => {}
      let failures = 0
      function end(error: unknown): void {
        if (isOver) return
        isOver = true
        stop()
        onEnd(error)
      }
      function begin(): void {
        if (isOver) return
        stop = client.subscribe<ReturnType<NonNullable<typeof operation.__apiType>>>(
          { query: textOf(operation), variables },
          {
            next({ data }) {
              failures = 0
              if (data && !isOver) onData(data)
            },
            error(error) {
              if (mayPass(error)) setTimeout(begin, waitMsAfter(failures++))
              else end(error)
            },
            complete: () => end(null),
          },
        )
      }
      begin()
      return () => {
        isOver = true
        stop()
      }
    },
    close() {
      isClosed = true
      void socket?.dispose()
    },
  }
}

/** Longer each time, and not the same for everybody. */
function waitMsAfter(failures: number): number {
  return Math.min(500 * 2 ** failures, LONGEST_RETRY_WAIT_MS) * (0.75 + Math.random() / 2)
}

/** Whether what ended a subscription is the server's fault for now: then it can be resumed. */
function mayPass(error: unknown): boolean {
  const [first] = Array.isArray(error) ? error : []
  return ['INTERNAL_SERVER_ERROR', 'RATE_LIMITED'].includes(first?.extensions?.code)
}

/** One socket for all subscriptions, opened with the first. */
function connect(authorization: string, onConnection: (connection: Connection) => unknown): Client {
  return createClient({
    url: `${location.protocol === 'https:' ? 'wss' : 'ws'}://${location.host}/graphql`,
    connectionParams: { authorization },
    keepAlive: KEEP_ALIVE_MS,
    retryAttempts: Number.POSITIVE_INFINITY,
    retryWait: (retries) => new Promise((resolve) => setTimeout(resolve, waitMsAfter(retries))),
    shouldRetry: (event) => !(event instanceof CloseEvent && event.code === UNAUTHENTICATED_CLOSE),
    on: {
      connecting: () => onConnection('connecting'),
      connected: () => onConnection('live'),
      closed: () => onConnection('lost'),
    },
  })
}
