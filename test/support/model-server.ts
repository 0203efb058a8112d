import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { readAnthropicMessages, readAnthropicTools } from './model-server-anthropic.ts'
import { readChatMessages, readChatTools } from './model-server-chat.ts'
import { readGoogleContents, readGoogleTools } from './model-server-google.ts'
import { errorBody, play, sendError, wasDisconnected } from './model-server-play.ts'
import { readResponsesInput, readResponsesTools } from './model-server-responses.ts'
import type { Endpoint, ModelAction, ModelMessage, ModelRequest, ModelScript } from './model-server-script.ts'
import { RefusedRequest } from './model-server-script.ts'

/**
 * A model on a local port, which plays scripted answers. It uses the streaming wire formats of OpenAI, Anthropic and Google, so
 * that tests include the AI SDK's packages. It refuses the same requests as the providers: calls without results, results
 * without calls, references to stored items, malformed tools, and reasoning that it did not sign.
 */
export interface ModelServer {
  /** The base URL for `createOpenAI({ baseURL })` and OPENAI_BASE_URL. */
  baseUrl: string
  /** The base URL for Google's API. */
  googleUrl: string
  /** Every accepted request, oldest first. */
  requests: ModelRequest[]
  /** Every request that was refused with status 400, with the reason. In most tests, it must stay empty. */
  refusals: string[]
  /** Registers a script. The latest script that returns actions decides. Returns a function that removes the script. */
  script(script: ModelScript): () => void
  /** Resolves to the first request, past or future, that meets the condition. */
  request(condition: (request: ModelRequest) => boolean): Promise<ModelRequest>
  /** Clears scripts and requests for the next test. */
  reset(): void
  /**
   * The models that `GET …/models` lists; with null (the default), it responds with 404. With `needsNoKey`, it lists them for
   * any key, as OpenRouter does.
   */
  listed: { models: string[] | null; needsNoKey: boolean }
  /** Cuts every connection, and closes the server. */
  close(): Promise<void>
}

export interface ModelServerOptions {
  /** Refuses any key other than this one with status 401; null accepts every key. */
  apiKey?: string | null
  port?: number
}

export async function startModelServer({ apiKey = null, port = 0 }: ModelServerOptions = {}): Promise<ModelServer> {
  const requests: ModelRequest[] = []
  let accepted = 0
  const refusals: string[] = []
  let scripts: ModelScript[] = []
  const listed: ModelServer['listed'] = { models: null, needsNoKey: false }
  let watchers: (() => void)[] = []

  async function answer(incoming: IncomingMessage, response: ServerResponse): Promise<void> {
    const { endpoint, model } = endpointOf(incoming.url ?? '')
    if (incoming.method === 'GET') return answerList(incoming, response)
    if (endpoint === undefined || incoming.method !== 'POST')
      return sendError(response, 404, `No route ${incoming.url}.`)
    const key = keyIn(incoming.headers)
    if (apiKey !== null && key !== apiKey) {
      const message = `Incorrect API key provided: ${key}.`
      return sendError(response, 401, message, 'invalid_api_key', errorBody(endpoint, 401, message, 'invalid_api_key'))
    }
    const body = { ...JSON.parse(await readText(incoming)), ...(model === undefined ? {} : { model, stream: true }) }
    let request: ModelRequest
    try {
      request = acceptRequest(endpoint, body, incoming, response, accepted + 1)
    } catch (error) {
      if (!(error instanceof RefusedRequest)) throw error
      refusals.push(error.message)
      const body = errorBody(endpoint, 400, error.message, 'invalid_request_error')
      return sendError(response, 400, error.message, 'invalid_request_error', body)
    }
    accepted += 1
    requests.push(request)
    for (const watcher of watchers) watcher()
    await play(request, await actionsFor(request), response)
  }

  function answerList({ url = '', headers }: IncomingMessage, response: ServerResponse): void {
    const key = keyIn(headers)
    const isRefused = apiKey !== null && key !== apiKey && !listed.needsNoKey
    if (isRefused) sendError(response, 401, `Incorrect API key provided: ${key}.`, 'invalid_api_key')
    else if (listed.models === null || !/\/models(\?|$)/.test(url)) sendError(response, 404, `No route ${url}.`)
    else sendList(url, listed.models, response)
  }

  function sendList(url: string, names: readonly string[], response: ServerResponse): void {
    const isGoogle = url.startsWith('/v1beta')
    const google = names.map((name) => ({ name: `models/${name}`, supportedGenerationMethods: ['generateContent'] }))
    const body = isGoogle ? { models: google } : { object: 'list', data: names.map((id) => ({ id, object: 'model' })) }
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(body))
  }

  async function actionsFor(request: ModelRequest): Promise<ModelAction[]> {
    for (const script of scripts.toReversed()) {
      const actions = await script(request)
      if (actions !== undefined) return actions
    }
    return [{ error: `No script answers request ${request.n}.`, status: 400 }]
  }

  function waitForRequest(condition: (request: ModelRequest) => boolean): Promise<ModelRequest> {
    return new Promise((resolve) => {
      const look = () => {
        const found = requests.find(condition)
        if (found === undefined) return
        watchers = watchers.filter((watcher) => watcher !== look)
        resolve(found)
      }
      watchers.push(look)
      look()
    })
  }

  const server = createServer((incoming, response) => {
    answer(incoming, response).catch((error) => sendError(response, 500, `The test's script failed: ${error}`))
  })
  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve))

  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return {
    baseUrl: `${origin}/v1`,
    googleUrl: `${origin}/v1beta`,
    requests,
    refusals,
    listed,
    script(script) {
      scripts.push(script)
      return () => {
        scripts = scripts.filter((other) => other !== script)
      }
    },
    request: waitForRequest,
    reset() {
      scripts = []
      listed.models = null
      listed.needsNoKey = false
      requests.length = 0
      accepted = 0
      refusals.length = 0
    },
    close() {
      server.closeAllConnections()
      return new Promise((resolve) => server.close(() => resolve()))
    },
  }
}

const ENDPOINTS: Record<string, Endpoint> = {
  '/v1/chat/completions': 'chat',
  '/v1/responses': 'responses',
  '/v1/messages': 'anthropic',
}

/** Google's path contains the model, and whether to stream. */
function endpointOf(url: string): { endpoint?: Endpoint; model?: string } {
  const [, model] = /^\/v1beta\/models\/([^:]+):streamGenerateContent\?alt=sse$/.exec(url) ?? []
  return model === undefined ? { endpoint: ENDPOINTS[url] } : { endpoint: 'google', model }
}

function keyIn(headers: IncomingHttpHeaders): string | undefined {
  const key = headers['x-api-key'] ?? headers['x-goog-api-key'] ?? headers.authorization?.replace('Bearer ', '')
  return Array.isArray(key) ? key[0] : key
}

const READERS = {
  chat: { messages: readChatMessages, tools: readChatTools },
  responses: { messages: readResponsesInput, tools: readResponsesTools },
  anthropic: { messages: readAnthropicMessages, tools: readAnthropicTools },
  google: { messages: readGoogleContents, tools: readGoogleTools },
}

function acceptRequest(
  endpoint: Endpoint,
  // biome-ignore lint/suspicious/noExplicitAny: the wire body
  body: any,
  incoming: IncomingMessage,
  response: ServerResponse,
  n: number,
): ModelRequest {
  if (body.stream !== true) throw new RefusedRequest('This server only streams.')
  const messages = READERS[endpoint].messages(body)
  const tools = READERS[endpoint].tools(body)
  refuseBadTools(tools, body.tool_choice)
  const gone = new AbortController()
  const ended = new Promise<'finished' | 'aborted' | 'disconnected'>((resolve) => {
    response.on('close', () => {
      if (!response.writableFinished) gone.abort()
      resolve(response.writableFinished ? 'finished' : wasDisconnected(response) ? 'disconnected' : 'aborted')
    })
  })
  return {
    n,
    endpoint,
    model: body.model,
    instructions: messages.flatMap(({ role, text }) => (role === 'system' ? [text] : [])).join('\n\n'),
    messages,
    toolNames: tools.map((tool) => tool.name),
    step: stepOf(messages),
    body,
    headers: incoming.headers,
    signal: gone.signal,
    ended,
  }
}

function stepOf(messages: ModelMessage[]): number {
  const lastUser = messages.findLastIndex(
    ({ role, text }) => role === 'user' && !/^\[(URGENT|INBOX PREVIEW)/.test(text),
  )
  return messages.slice(lastUser + 1).filter(({ toolCalls }) => toolCalls.length > 0).length
}

function refuseBadTools(tools: { name: string; parameters: unknown }[], toolChoice: unknown): void {
  if (tools.length === 0 && toolChoice !== undefined) {
    throw new RefusedRequest(
      "Invalid value for 'tool_choice': 'tool_choice' is only allowed when 'tools' are specified.",
    )
  }
  const names = new Set<string>()
  for (const { name, parameters } of tools) {
    if (!/^[A-Za-z0-9_-]{1,64}$/.test(name)) throw new RefusedRequest(`Invalid tool name '${name}'.`)
    if (names.has(name)) throw new RefusedRequest(`Duplicate tool name '${name}'.`)
    names.add(name)
    const { type } = (parameters ?? {}) as { type?: unknown }
    if (type !== 'object') {
      throw new RefusedRequest(
        `Invalid schema for function '${name}': schema must be a JSON Schema of 'type: "object"', got 'type: "${type}"'.`,
      )
    }
  }
}

async function readText(incoming: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = []
  for await (const chunk of incoming) chunks.push(chunk)
  return Buffer.concat(chunks).toString('utf8')
}
