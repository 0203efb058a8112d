import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { readChatMessages, readChatTools } from './model-server-chat.ts'
import { play, sendError, wasDisconnected } from './model-server-play.ts'
import { readResponsesInput, readResponsesTools } from './model-server-responses.ts'
import type { ModelAction, ModelMessage, ModelRequest, ModelScript } from './model-server-script.ts'
import { RefusedRequest } from './model-server-script.ts'

/**
 * A model on a local port, for tests: it speaks OpenAI's streaming wire format, so that @ai-sdk/openai itself is
 * exercised, and does what scripts say. It refuses what the provider refuses: calls without results, results without
 * calls, references to stored items, tools of a bad shape.
 */
export interface ModelServer {
  /** For `createOpenAI({ baseURL })` and OPENAI_BASE_URL. */
  baseUrl: string
  /** Every accepted request, oldest first. */
  requests: ModelRequest[]
  /** What was refused with status 400, and why: in most tests it must stay empty. */
  refusals: string[]
  /** Registers a script; the latest that answers a request decides. Returns what takes it away again. */
  script(script: ModelScript): () => void
  /** The first request, past or coming, that meets the condition. */
  request(condition: (request: ModelRequest) => boolean): Promise<ModelRequest>
  /** Forgets scripts and requests, for the next test. */
  reset(): void
  /** Cuts every connection and ends. */
  close(): Promise<void>
}

export interface ModelServerOptions {
  /** Refuse any other key with status 401; null accepts every one. */
  apiKey?: string | null
  port?: number
}

export async function startModelServer({ apiKey = null, port = 0 }: ModelServerOptions = {}): Promise<ModelServer> {
  const requests: ModelRequest[] = []
  const refusals: string[] = []
  let scripts: ModelScript[] = []
  let watchers: (() => void)[] = []

  async function answer(incoming: IncomingMessage, response: ServerResponse): Promise<void> {
    const endpoint = ENDPOINTS[incoming.url ?? '']
    if (endpoint === undefined || incoming.method !== 'POST')
      return sendError(response, 404, `No route ${incoming.url}.`)
    if (apiKey !== null && incoming.headers.authorization !== `Bearer ${apiKey}`) {
      return sendError(
        response,
        401,
        `Incorrect API key provided: ${incoming.headers.authorization}.`,
        'invalid_api_key',
      )
    }
    const body = JSON.parse(await readText(incoming))
    let request: ModelRequest
    try {
      request = acceptRequest(endpoint, body, incoming, response, requests.length + 1)
    } catch (error) {
      if (!(error instanceof RefusedRequest)) throw error
      refusals.push(error.message)
      return sendError(response, 400, error.message, 'invalid_request_error')
    }
    requests.push(request)
    for (const watcher of watchers) watcher()
    await play(request, await actionsFor(request), response)
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

  return {
    baseUrl: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    requests,
    refusals,
    script(script) {
      scripts.push(script)
      return () => {
        scripts = scripts.filter((other) => other !== script)
      }
    },
    request: waitForRequest,
    reset() {
      scripts = []
      requests.length = 0
      refusals.length = 0
    },
    close() {
      server.closeAllConnections()
      return new Promise((resolve) => server.close(() => resolve()))
    },
  }
}

const ENDPOINTS: Record<string, 'chat' | 'responses'> = { '/v1/chat/completions': 'chat', '/v1/responses': 'responses' }

function acceptRequest(
  endpoint: 'chat' | 'responses',
  // biome-ignore lint/suspicious/noExplicitAny: the wire body
  body: any,
  incoming: IncomingMessage,
  response: ServerResponse,
  n: number,
): ModelRequest {
  if (body.stream !== true) throw new RefusedRequest('This server only streams.')
  const messages = endpoint === 'chat' ? readChatMessages(body) : readResponsesInput(body)
  const tools = endpoint === 'chat' ? readChatTools(body) : readResponsesTools(body)
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
