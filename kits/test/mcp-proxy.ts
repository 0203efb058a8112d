import {
  createServer,
  request as httpRequest,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type Server,
  type ServerResponse,
} from 'node:http'

type Json = Record<string, unknown>
type Call = (given: Json) => { name: string; arguments: Json }

/** What the proxy calls instead of the tools, resources and prompts of the kit's own server. */
export interface Names {
  tools: Record<string, Call>
  resources: Record<string, string>
  prompts: Record<string, Call>
  /** The key under which the kit expects the only question of a result. */
  inputKey: string
}

/**
 * Stands between the conformance kit and Parley. The kit cannot send a token, which the proxy adds, and calls tools of its own
 * server, whose names the proxy replaces. It answers every question of a form with `approve`, too. It changes nothing else.
 */
export function startProxy({ port, token, names }: { port: number; token: string; names: Names }): Promise<Server> {
  /** The key that Parley gave to the last question. */
  let lastKey = ''

  /** Replaces names in a request. Returns the name that the header must have, if it had the replaced one. */
  function translate(message: Json): { from: string; to: string } | null {
    const params = message['params'] as Json | undefined
    if (params === undefined) return null
    const { inputResponses: responses } = params
    if (typeof responses === 'object' && responses !== null) params['inputResponses'] = answersOf(responses as Json)
    if (message['method'] === 'resources/read') {
      const from = String(params['uri'])
      const to = names.resources[from]
      if (to === undefined) return null
      params['uri'] = to
      return { from, to }
    }
    const byMethod: Record<string, Record<string, Call>> = { 'tools/call': names.tools, 'prompts/get': names.prompts }
    const from = String(params['name'])
    const call = byMethod[String(message['method'])]?.[from]
    if (call === undefined) return null
    const called = call((params['arguments'] ?? {}) as Json)
    Object.assign(params, called)
    return { from, to: called.name }
  }

  function answersOf(responses: Json): Json {
    return Object.fromEntries(
      Object.entries(responses).map(([key, response]) => {
        const { action, content } = (typeof response === 'object' && response !== null ? response : {}) as Json
        const own = key === names.inputKey && lastKey !== '' ? lastKey : key
        return [own, action === 'accept' ? { action, content: { ...(content as Json), approve: true } } : response]
      }),
    )
  }

  /** Gives the only question of a result the key that the kit expects. */
  function rename(message: Json): void {
    const { resultType, inputRequests } = (message['result'] ?? {}) as Json
    if (resultType !== 'input_required') return
    const entries = Object.entries(inputRequests as Json)
    if (entries.length !== 1) return
    lastKey = entries[0]![0]
    Object.assign(message['result'] as Json, { inputRequests: { [names.inputKey]: entries[0]![1] } })
  }

  async function forward(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { method, url } = request
    const { 'content-length': _, ...received } = request.headers
    const headers: IncomingHttpHeaders = { ...received, authorization: `Bearer ${token}` }
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk as Buffer)
    let body = Buffer.concat(chunks)
    const message = parsed(body)
    const renamed = message === null ? null : translate(message)
    if (message !== null) body = Buffer.from(JSON.stringify(message))
    const name = String(headers['mcp-name'] ?? '')
    if (renamed !== null && name.trim() === renamed.from) headers['mcp-name'] = name.replace(renamed.from, renamed.to)
    const sent = { ...headers, 'content-length': body.length }
    const onward = httpRequest({ host: '127.0.0.1', port, method, path: url, headers: sent }, (answer) => {
      const status = answer.statusCode ?? 502
      if (!answer.headers['content-type']?.startsWith('application/json')) {
        response.writeHead(status, answer.headers)
        return void answer.pipe(response)
      }
      void textOf(answer).then((text) => {
        const result = JSON.parse(text) as Json
        rename(result)
        const { 'content-length': _, ...rest } = answer.headers
        response.writeHead(status, rest).end(JSON.stringify(result))
      })
    })
    onward.on('error', () => response.destroy())
    response.on('close', () => onward.destroy())
    onward.end(body)
  }

  const server = createServer((request, response) => void forward(request, response))
  return new Promise((resolve) => server.listen(0, () => resolve(server)))
}

function parsed(body: Buffer): Json | null {
  try {
    const message: unknown = JSON.parse(body.toString())
    return typeof message === 'object' && message !== null && !Array.isArray(message) ? (message as Json) : null
  } catch {
    return null
  }
}

async function textOf(answer: IncomingMessage): Promise<string> {
  let text = ''
  for await (const chunk of answer.setEncoding('utf8')) text += chunk
  return text
}
