import type { ServerResponse } from 'node:http'
import { orNullIfAborted, sleep } from '../../src/lib/async.ts'
import { anthropicError, createAnthropicWriter } from './model-server-anthropic.ts'
import { createChatWriter } from './model-server-chat.ts'
import { createGoogleWriter, googleError } from './model-server-google.ts'
import { createResponsesWriter } from './model-server-responses.ts'
import type { Chunking, Endpoint, ModelAction, ModelRequest, TokenFigures, WireWriter } from './model-server-script.ts'
import { piecesOf } from './model-server-script.ts'

/** Performs a script, one action after another, until the generation is complete or the client disconnects. */
export async function play(request: ModelRequest, actions: ModelAction[], response: ServerResponse): Promise<void> {
  const [first] = actions
  if (first !== undefined && 'error' in first) {
    for (const [name, value] of Object.entries(first.headers ?? {})) response.setHeader(name, value)
    const { status = 500, error, code, body = errorBody(request.endpoint, status, error, code) } = first
    return sendError(response, status, error, code, body)
  }
  const generation: Generation = { request, response, writer: createWriter(request, response), output: '', calls: 0 }
  for (const action of actions) {
    const next = await playAction(generation, action)
    if (next === 'stop' || request.signal.aborted) return
  }
  const { finish = generation.calls > 0 ? 'tool_calls' : 'stop', usage = estimateUsage(generation) } = generation
  generation.writer.finish(finish === 'none' ? null : finish, usage)
  response.end()
}

interface Generation {
  request: ModelRequest
  response: ServerResponse
  writer: WireWriter
  finish?: string
  usage?: TokenFigures | null
  /** All text of the model. */
  output: string
  /** The number of tool calls. */
  calls: number
}

async function playAction(generation: Generation, action: ModelAction): Promise<'go on' | 'stop'> {
  const { request, response, writer } = generation
  if ('text' in action) await writePart(generation, writer.open({ type: 'text' }), action.text, action)
  else if ('reasoning' in action)
    await writePart(generation, writer.open({ type: 'reasoning' }), action.reasoning, action)
  else if ('toolCall' in action) await callTool(generation, action)
  else if ('gate' in action) await orNullIfAborted(request.signal, action.gate)
  else if ('delayMs' in action) await sleep(action.delayMs, request.signal)
  else if ('usage' in action) generation.usage = action.usage
  else if ('finish' in action) generation.finish = action.finish
  else if ('hang' in action) return 'stop'
  else if ('disconnect' in action) {
    disconnect(response)
    return 'stop'
  } else {
    writer.error(action.error, action.code ?? 'server_error')
    response.end()
    return 'stop'
  }
  return 'go on'
}

async function callTool(generation: Generation, action: Extract<ModelAction, { toolCall: string }>): Promise<void> {
  const { request, writer } = generation
  const text = typeof action.input === 'string' ? action.input : JSON.stringify(action.input ?? {})
  const id = action.id ?? `call_${request.n}_${generation.calls}_${randomSuffix()}`
  generation.calls += 1
  await writePart(generation, writer.open({ type: 'toolCall', id, name: action.toolCall }), text, action)
}

async function writePart(
  generation: Generation,
  part: ReturnType<WireWriter['open']>,
  text: string,
  chunking: Chunking,
): Promise<void> {
  const { signal } = generation.request
  for (const piece of piecesOf(text, chunking)) {
    if (signal.aborted) return
    if (typeof piece === 'string') {
      generation.output += piece
      part.delta(piece)
    } else await orNullIfAborted(signal, Promise.resolve(piece()))
  }
  part.close()
}

function createWriter(request: ModelRequest, response: ServerResponse): WireWriter {
  const id = `${request.n}${randomSuffix()}`
  const send = (data: string) => {
    if (!response.headersSent) response.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8' })
    response.write(data)
  }
  const { model, body } = request
  if (request.endpoint === 'anthropic') return createAnthropicWriter(send, { model, id })
  if (request.endpoint === 'google') return createGoogleWriter(send, { model, id })
  if (request.endpoint === 'chat') {
    return createChatWriter(send, { model, id, includeUsage: body.stream_options?.include_usage === true })
  }
  const includeEncryptedReasoning = body.include?.includes('reasoning.encrypted_content') === true
  return createResponsesWriter(send, { model, id, includeEncryptedReasoning })
}

function randomSuffix(): string {
  return Math.random().toString(36).slice(2, 10)
}

/** OpenAI's rule of thumb: about four characters per token. */
function estimateUsage({ request, output }: Generation): TokenFigures {
  const input = request.messages.reduce((length, { text }) => length + text.length, 0)
  return { inputTokens: Math.ceil(input / 4), outputTokens: Math.ceil(output.length / 4) }
}

const disconnected = new WeakSet<ServerResponse>()

/** Returns whether a script's `disconnect` cut this connection. */
export function wasDisconnected(response: ServerResponse): boolean {
  return disconnected.has(response)
}

function disconnect(response: ServerResponse): void {
  disconnected.add(response)
  // The written bytes must have been sent before the socket is cut.
  const { socket } = response
  if (socket === null) response.destroy()
  else socket.end(() => socket.destroy())
}

/** Returns an error in the format of the endpoint's provider. */
export function errorBody(endpoint: Endpoint, status: number, message: string, code = 'server_error'): object {
  if (endpoint === 'anthropic') return anthropicError(message, code)
  if (endpoint === 'google') return googleError(message, status)
  return { error: { message, type: code, param: null, code } }
}

/** Responds with an error, by default in OpenAI's format. If a response has begun, cuts the connection instead. */
export function sendError(
  response: ServerResponse,
  status: number,
  message: string,
  code = 'server_error',
  body?: unknown,
): void {
  if (response.headersSent) {
    response.destroy()
    return
  }
  response.writeHead(status, { 'content-type': 'application/json' })
  response.end(JSON.stringify(body ?? errorBody('chat', status, message, code)))
}
