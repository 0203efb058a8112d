// The parts that the JSON-RPC 2.0 endpoints share.
import { DoorError, type Exchange } from './exchange.ts'

const PARSE_ERROR = -32700
const INTERNAL_ERROR = -32603
const SERVER_ERROR = -32000

/** The body of the response to a request that failed before its message was understood. */
export function failureOf({ code, status, message }: DoorError): object {
  const isUnreadable = code === 'BAD_INPUT' && status === 400
  const number = isUnreadable ? PARSE_ERROR : code === 'INTERNAL_SERVER_ERROR' ? INTERNAL_ERROR : SERVER_ERROR
  return { jsonrpc: '2.0', error: { code: number, message }, id: null }
}

/** Returns the message of a request. @throws DoorError unless it is JSON, sent with POST */
export function readMessage({ method, json }: Exchange): Promise<unknown> {
  if (method === 'POST') return json()
  throw new DoorError('BAD_INPUT', 'Use POST.', { status: 405, headers: { allow: 'POST' } })
}

/** A response of JSON-RPC messages. */
export interface MessageStream {
  /** Sends the first message, which begins the response. @throws DoorError if the token of the viewer has ended */
  open(message: object): void
  send(message: object): void
  keepAlive(): void
  /** Whether the client must read before more is sent. */
  isBusy(): boolean
  onReady(listener: () => void): void
  end(): void
}

export function messageStreamOf(exchange: Exchange): MessageStream {
  let stream: ReturnType<Exchange['openStream']> | null = null
  const write = (text: string) => void stream?.write(text).catch(() => {})
  const send = (message: object) => write(`event: message\ndata: ${JSON.stringify(message)}\n\n`)
  return {
    open(message) {
      stream = exchange.openStream()
      send(message)
    },
    send,
    keepAlive: () => write(':\n\n'),
    isBusy: () => stream?.isBusy() === true,
    onReady: (listener) => stream?.onReady(listener),
    end: () => stream?.end(),
  }
}
