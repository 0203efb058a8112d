import {
  type AuthInfo,
  classifyInboundRequest,
  createMcpHandler,
  type McpRequestContext,
  ProtocolError,
  ProtocolErrorCode,
  Server,
  type ServerContext,
} from '@modelcontextprotocol/server'
import { z } from 'zod'
import { isObject, jsonBytes } from '../../lib/json.ts'
import type { Conversing } from '../conversing.ts'
import { type Door, DoorError, type Exchange, notFound, tooLong, within } from '../exchange.ts'
import { failureOf as bodyOf, messageStreamOf, readMessage } from '../json-rpc.ts'
import { createTasks } from '../tasks/tasks.ts'
import { AROUND_RESULT_BYTES, type Calls, createCalls, SHARE_OF_DATA } from './calls.ts'
import { type ClientMessage, capabilitiesOf, type McpExchange, type Result, TASKS_EXTENSION } from './exchange.ts'
import { Listening, wantedBy } from './listen.ts'
import { createPrompts, type Prompts } from './prompts.ts'
import { createResources, type Resources } from './resources.ts'
import { checkTakesTasks, createTaskMethods, protocolErrorOf, type TaskMethods } from './task-methods.ts'
import { TOOL_LIST, WAITING_TOOLS } from './tool-inputs.ts'

export interface McpDoorParts {
  conversing: Pick<Conversing, 'open'>
  /** The maximum size of a result. */
  maxResponseBytes: number
  /** Receives errors that were not caused by a client. */
  onError(error: Error): void
}

export const MCP_PATH = '/mcp'
/** The path of the OAuth metadata (RFC 9728). */
export const METADATA_PATH = `/.well-known/oauth-protected-resource${MCP_PATH}`

const MOST_IN_BATCH = 100
const SERVER_INFO = { name: 'parley', title: 'Parley', version: '1' }
const MODERN = '2026-07-28'
/** For this time (five minutes), clients may cache lists that are the same for every viewer. */
const CACHED = { ttlMs: 300_000, cacheScope: 'public' }
const HEADER_MISMATCH = -32020

const INSTRUCTIONS =
  'Parley is a server in which people and AI agents share spaces. Use list_spaces and read_messages to see what is happening, send_message or ask_agent to work with agents, and list_pending and decide for tool calls of agents that wait for a person. Decide only as your user instructs.'

/** Whether a request opens a stream of notifications. */
const isListen = (body: unknown): boolean => isObject(body) && body['method'] === 'subscriptions/listen'

/** Returns how many calls in a request may wait for agents. These are the calls that start work or continue it. */
export function waitsOf(body: unknown): number {
  const messages = Array.isArray(body) ? body : [body]
  return messages.filter(mayWait).length
}

function mayWait(message: unknown): boolean {
  if (!isObject(message) || !isObject(message['params'])) return false
  const { name, requestState } = message['params']
  return WAITING_TOOLS.includes(String(name)) || requestState !== undefined
}

/**
 * Serves version 2026-07-28 of the Model Context Protocol (MCP). Also serves clients of version 2025-11-25, without
 * sessions.
 */
export function createMcpDoor({ conversing, maxResponseBytes, onError }: McpDoorParts): Door {
  const tasks = createTasks(maxResponseBytes)
  const calls = createCalls({ conversing, tasks, maxResponseBytes })
  const methods = createTaskMethods({ tasks, calls, maxResponseBytes })
  const resources = createResources()
  const prompts = createPrompts()
  const handlers = { calls, methods, resources, prompts, maxResponseBytes }
  const handler = createMcpHandler((context) => serverFor(context, handlers), { onerror: report, keepAliveMs: 12_000 })

  /**
   * Reports an error, unless it only means that a request was refused. The package reports such errors too,
   * although the client gets a response.
   */
  function report(error: Error): void {
    if (!(error instanceof ProtocolError) && !/^(Rejected|Unsupported Media Type)/.test(error.message)) onError(error)
  }

  const mcpExchangeOf = ({ caller, waiting }: Exchange, body: unknown): McpExchange => ({
    caller: within(caller, maxResponseBytes * SHARE_OF_DATA),
    waiting,
    ...capabilitiesOf(isObject(body) ? (body as ClientMessage) : {}),
  })

  /** Responds to a request that does not open a stream. */
  async function answer(exchange: Exchange, body: unknown): Promise<Response> {
    const { caller } = exchange
    const count = waitsOf(body)
    if (count > 0) await exchange.takePlace({ count, isServedWhileDraining: true })
    const extra: Extra = { exchange: mcpExchangeOf(exchange, body), method: isObject(body) ? body['method'] : null }
    const authInfo: AuthInfo = { token: '', clientId: caller.viewer.id, scopes: [], extra }
    const sent = new Request(exchange.linkTo(MCP_PATH), {
      method: 'POST',
      headers: exchange.headers(),
      signal: caller.signal,
    })
    return handler.fetch(sent, { parsedBody: body, authInfo })
  }

  /**
   * Serves a request that opens a stream of notifications. Returns the response if the request is refused, and null
   * once the stream is open.
   */
  async function listen(exchange: Exchange, body: unknown): Promise<Response | null> {
    await exchange.takePlace()
    const { id, params } = body as ClientMessage
    const refusal = refusalOf(exchange.headers(), body)
    if (refusal !== null) return refusal
    if (typeof id !== 'string' && typeof id !== 'number')
      return failed(400, ProtocolErrorCode.InvalidRequest, '`id` must be a string or a number.')
    const wanted = wantedBy(params)
    if (typeof wanted === 'string') return failed(400, ProtocolErrorCode.InvalidParams, wanted, id)
    const mcp = mcpExchangeOf(exchange, body)
    try {
      if (wanted.taskIds.length > 0) checkTakesTasks(mcp)
      await new Listening({ tasks, methods, serverInfo: SERVER_INFO }, mcp, id, messageStreamOf(exchange)).begin(wanted)
      return null
    } catch (error) {
      return failureOf(error, id)
    }
  }

  return {
    failureOf: bodyOf,
    endsAtDrain: true,
    metadataPath: METADATA_PATH,
    async handle(exchange) {
      if (exchange.path !== '') throw notFound(`There is no such path: use ${MCP_PATH}.`)
      const body = await readMessage(exchange)
      if (Array.isArray(body) && body.length > MOST_IN_BATCH) {
        const tooMany = `Send at most ${MOST_IN_BATCH} messages at once.`
        return exchange.respond(failed(400, ProtocolErrorCode.InvalidRequest, tooMany))
      }
      const response = isListen(body) ? await listen(exchange, body) : await answer(exchange, body)
      if (response !== null) await exchange.respond(response)
    },
  }
}

/** Returns the response for an error. @throws errors that the client did not cause */
function failureOf(error: unknown, id: unknown): Response {
  const isOfOperation = error instanceof DoorError
  const told = isOfOperation ? protocolErrorOf(error) : error
  if (!(told instanceof ProtocolError)) throw error
  const status = isOfOperation && error.retryAfterMs !== null ? 429 : 400
  return failed(status, told.code, told.message, id, told.data)
}

/** Returns an error response if the headers of a request do not match the body; null if they do. */
function refusalOf(headers: Headers, body: unknown): Response | null {
  const header = (name: string) => headers.get(name) ?? undefined
  const outcome = classifyInboundRequest({
    httpMethod: 'POST',
    body,
    protocolVersionHeader: header('mcp-protocol-version'),
    mcpMethodHeader: header('mcp-method'),
    mcpNameHeader: header('mcp-name'),
  } as Parameters<typeof classifyInboundRequest>[0])
  const { id } = body as ClientMessage
  if (outcome.kind === 'reject') return failed(outcome.httpStatus, outcome.code, outcome.message, id, outcome.data)
  if (outcome.kind === 'legacy')
    return failed(404, ProtocolErrorCode.MethodNotFound, 'Method not found: streams need protocol 2026-07-28.', id)
  const { revision } = outcome.classification
  if (revision !== MODERN) {
    const data = { supported: [MODERN], requested: revision ?? 'unknown' }
    return failed(400, ProtocolErrorCode.UnsupportedProtocolVersion, 'Unsupported protocol version', id, data)
  }
  for (const name of ['mcp-protocol-version', 'mcp-method'])
    if (!headers.has(name)) return failed(400, HEADER_MISMATCH, `The header ${name} is required.`, id)
  return null
}

/** Returns a JSON-RPC error as an HTTP response. */
export function failed(status: number, code: number, message: string, id: unknown = null, data?: unknown): Response {
  const known = typeof id === 'string' || typeof id === 'number' ? id : null
  const error = { code, message, ...(data === undefined ? {} : { data }) }
  return Response.json({ jsonrpc: '2.0', error, id: known }, { status })
}

interface Extra extends Record<string, unknown> {
  exchange: McpExchange
  /** The method of a single request; null for a batch. */
  method: unknown
}

interface Handlers {
  calls: Calls
  methods: TaskMethods
  resources: Resources
  prompts: Prompts
  maxResponseBytes: number
}

/** Creates the MCP server object for one request. */
function serverFor(
  { era, authInfo }: McpRequestContext,
  { calls, methods, resources, prompts, maxResponseBytes }: Handlers,
): Server {
  /** Returns the result unchanged. @throws ProtocolError if the result exceeds the size limit */
  function checked(result: Result): Result {
    if (jsonBytes(result) <= maxResponseBytes - AROUND_RESULT_BYTES) return result
    throw protocolErrorOf(tooLong(maxResponseBytes))
  }
  const { exchange, method: asked } = (authInfo as AuthInfo).extra as Extra
  const isModern = era === 'modern'
  const server = new Server(SERVER_INFO, {
    instructions: INSTRUCTIONS,
    capabilities: {
      tools: {},
      prompts: {},
      resources: isModern ? { subscribe: true, listChanged: true } : {},
      ...(isModern ? { extensions: { [TASKS_EXTENSION]: {} } } : {}),
    },
  })
  // The package moves `inputResponses` from the parameters to the context.
  const update = (params: unknown, { mcpReq }: ServerContext) => methods.update(exchange, params, mcpReq.inputResponses)
  const byMethod: Record<string, (params: unknown, context: ServerContext) => Result | Promise<Result>> = {
    'tools/list': () => ({ tools: TOOL_LIST, ...(isModern ? CACHED : {}) }),
    'tools/call': (params, context) => calls.call(exchange, params, context),
    'resources/list': (params) => resources.list(exchange, params),
    'resources/templates/list': () => ({ ...resources.templates(), ...(isModern ? CACHED : {}) }),
    'resources/read': (params) => resources.read(exchange, params),
    'prompts/list': (params) => prompts.list(exchange, params),
    'prompts/get': (params) => prompts.get(exchange, params),
    ...(isModern ? { 'tasks/update': update } : {}),
  }
  // The fallback handles these methods, because the package's own handlers refuse tasks as results of tools. If
  // there is no fallback, the package responds with 404 to unknown methods.
  if (!isModern || (typeof asked === 'string' && Object.hasOwn(byMethod, asked)))
    server.fallbackRequestHandler = async ({ method, params }, context) => {
      const handle = Object.hasOwn(byMethod, method) ? byMethod[method] : undefined
      if (handle === undefined) throw new ProtocolError(ProtocolErrorCode.MethodNotFound, 'Method not found')
      return checked(await handle(params, context))
    }
  if (isModern) {
    // This schema accepts any parameters. The package knows both methods from version 2025-11-25, and calls their
    // handlers only if a schema is given.
    const ANY = { params: z.looseObject({}) }
    server.setRequestHandler('tasks/get', ANY, async (params) => checked(await methods.get(exchange, params)))
    server.setRequestHandler('tasks/cancel', ANY, (params) => methods.cancel(exchange, params))
  }
  return server
}
