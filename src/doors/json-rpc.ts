// Functions that the endpoints for JSON-RPC 2.0 share.
import { DoorError, type EventStream, type Exchange } from './exchange.ts'

const PARSE_ERROR = -32700
const INTERNAL_ERROR = -32603
const SERVER_ERROR = -32000

/** Returns the body of the response to a request that failed before its message was parsed. */
export function failureOf({ code, status, message }: DoorError): object {
  const isUnreadable = code === 'BAD_INPUT' && status === 400
  const number = isUnreadable ? PARSE_ERROR : code === 'INTERNAL_SERVER_ERROR' ? INTERNAL_ERROR : SERVER_ERROR
  return { jsonrpc: '2.0', error: { code: number, message }, id: null }
}

/** Returns the message of a request. @throws DoorError unless the request is a POST of JSON */
export function readMessage({ method, json }: Exchange): Promise<unknown> {
  if (method === 'POST') return json()
  throw new DoorError('BAD_INPUT', 'Use POST.', { status: 405, headers: { allow: 'POST' } })
}

/** A response that consists of JSON-RPC messages. */
export interface MessageStream {
  /** Sends the first message, which begins the response. @throws DoorError if the viewer's token has become invalid */
  open(message: object): void
  send(message: object): void
  keepAlive(): void
  /** Whether the client has unread messages. If so, the caller should not send more yet. */
  isBusy(): boolean
  /** Calls the listener each time the client has read all messages that were sent. */
  onReady(listener: () => void): void
  end(): void
}

export function messageStreamOf(exchange: Exchange): MessageStream {
  let stream: EventStream | null = null
  /** The number of writes that have not been completed. */
  let pending = 0
  let last = Promise.resolve()
  let onReady = () => {}

  /**
   * Writes texts in order. If the client has disconnected, the text is ignored. If a message exceeds the size
   * limit, the stream is ended.
   */
  async function write(text: string): Promise<void> {
    pending += 1
    last = last.then(() => stream?.write(text)).catch(() => stream?.end())
    await last
    pending -= 1
    if (pending === 0) onReady()
  }
  const send = (message: object) => void write(`event: message\ndata: ${JSON.stringify(message)}\n\n`)

  return {
    open(message) {
      stream = exchange.openStream()
      send(message)
    },
    send,
    keepAlive: () => void write(':\n\n'),
    isBusy: () => pending > 0,
    onReady(listener) {
      onReady = listener
    },
    end: () => void last.then(() => stream?.end()),
  }
}
