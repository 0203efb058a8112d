import type { TestServer } from '../support/served.ts'

/** The response to one request: the status, the headers, and the JSON-RPC message with the id of the request. */
export interface Answer {
  status: number
  headers: Headers
  // biome-ignore lint/suspicious/noExplicitAny: the content can have any shape
  message: any
}

export interface RawOptions {
  token?: string | null
  headers?: Record<string, string | null>
  capabilities?: object
  version?: string
  signal?: AbortSignal
}

export const MODERN = '2026-07-28'
export const TASKS = { extensions: { 'io.modelcontextprotocol/tasks': {} } }
export const FORMS = { elicitation: { form: {} } }

const NAMED = ['name', 'uri', 'taskId'] as const

let lastId = 0

/** Returns the body of a request in the protocol version 2026-07-28. */
export function requestOf(
  method: string,
  params: Record<string, unknown> = {},
  { capabilities = {}, version = MODERN } = {},
) {
  lastId += 1
  const _meta = {
    'io.modelcontextprotocol/protocolVersion': version,
    'io.modelcontextprotocol/clientCapabilities': capabilities,
    'io.modelcontextprotocol/clientInfo': { name: 'test', version: '1' },
  }
  return { jsonrpc: '2.0', id: lastId, method, params: { ...params, _meta } }
}

/** A client that writes its requests by hand. */
export function rawClient({ origin }: Pick<TestServer, 'origin'>, token: string) {
  async function post(
    body: unknown,
    { headers = {}, token: other = token, signal }: RawOptions = {},
  ): Promise<Response> {
    const all = {
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      ...(other === null ? {} : { authorization: `Bearer ${other}` }),
      ...headers,
    }
    const sent = Object.fromEntries(Object.entries(all).filter(([, value]) => value !== null)) as Record<string, string>
    const text = typeof body === 'string' ? body : JSON.stringify(body)
    return fetch(`${origin}/mcp`, { method: 'POST', headers: sent, body: text, ...(signal ? { signal } : {}) })
  }

  function headersOf(method: string, params: Record<string, unknown>, version: string): Record<string, string> {
    const name = NAMED.map((key) => params[key]).find((value) => typeof value === 'string')
    return {
      'mcp-protocol-version': version,
      'mcp-method': method,
      ...(name === undefined ? {} : { 'mcp-name': String(name) }),
    }
  }

  async function ask(method: string, params: Record<string, unknown> = {}, options: RawOptions = {}): Promise<Answer> {
    const { version = MODERN, capabilities = {} } = options
    const response = await post(requestOf(method, params, { capabilities, version }), {
      ...options,
      headers: { ...headersOf(method, params, version), ...options.headers },
    })
    return answerOf(response)
  }

  /** Returns the result of a tool. Its structured content describes what the tool did. */
  async function call(name: string, args: object = {}, options: RawOptions & { more?: object } = {}) {
    const { message } = await ask('tools/call', { name, arguments: args, ...options.more }, options)
    return message.result ?? message
  }

  /** Opens a stream. Returns the messages received so far. */
  async function listen(notifications: object, options: RawOptions = {}) {
    const params = { notifications }
    const response = await post(requestOf('subscriptions/listen', params, options), {
      ...options,
      headers: headersOf('subscriptions/listen', params, MODERN),
    })
    // biome-ignore lint/suspicious/noExplicitAny: the content can have any shape
    const seen: any[] = []
    if (!response.headers.get('content-type')?.startsWith('text/event-stream'))
      return { response, seen: [await response.json()], ended: Promise.resolve() }
    const ended = readEvents(response, (message) => seen.push(message))
    return { response, seen, ended }
  }

  return { post, ask, call, listen }
}

export async function answerOf(response: Response): Promise<Answer> {
  const { status, headers } = response
  if (!headers.get('content-type')?.startsWith('text/event-stream')) {
    const text = await response.text()
    return { status, headers, message: text === '' ? null : JSON.parse(text) }
  }
  let last: unknown = null
  await readEvents(response, (message) => {
    last = message
  })
  return { status, headers, message: last }
}

export async function readEvents(response: Response, onMessage: (message: unknown) => void): Promise<void> {
  let rest = ''
  const decoder = new TextDecoder()
  try {
    for await (const chunk of response.body ?? []) {
      rest += decoder.decode(chunk as Uint8Array, { stream: true })
      const events = rest.split('\n\n')
      rest = events.pop() ?? ''
      for (const event of events) {
        const data = event.split('\n').find((line) => line.startsWith('data: '))
        if (data !== undefined) onMessage(JSON.parse(data.slice(6)))
      }
    }
  } catch {
    // The error occurs because the test has closed the stream.
  }
}
