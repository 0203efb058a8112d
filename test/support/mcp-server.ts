import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

/** A tool of the server: its definition, and how it responds. */
export interface ServedTool {
  name: string
  description?: string
  inputSchema?: object
  /** In a response, `{ rawJson }` stands for that JSON text. */
  answer?: (input: Record<string, unknown>) => object | Promise<object>
}

/** A server for tests that speaks the Model Context Protocol over Streamable HTTP on a local port. */
export interface McpServer {
  url: string
  /** The current tools, which tests change. */
  tools: ServedTool[]
  /** Every message that the server received, oldest first. */
  received: { method: string; params: Record<string, unknown>; headers: IncomingMessage['headers'] }[]
  /**
   * How the server misbehaves: `hang` never responds, `refuse` responds with status 503, `forget` loses its sessions once, and
   * `deny` accepts no session.
   */
  mode: 'well' | 'hang' | 'refuse' | 'forget' | 'deny'
  /** The response to a request with a session that is unknown to the server. */
  onUnknownSession: { status: number; body: string }
  /** The credentials that the server requires; null for none. */
  authorization: string | null
  /** Answers requests outside of the protocol, such as those of OAuth. Returns whether it did. */
  aside: ((request: IncomingMessage, response: ServerResponse) => boolean) | null
  /** Whether the server responds with an event stream instead of JSON. */
  streams: boolean
  close(): Promise<void>
}

export async function startMcpServer(tools: ServedTool[] = []): Promise<McpServer> {
  const sessions = new Set<string>()
  let count = 0

  const isAside = (request: IncomingMessage, response: ServerResponse) =>
    server.mode === 'hang' || server.aside?.(request, response) === true

  /** Refuses every message that the server does not accept. Returns whether it did. */
  function refuse(request: IncomingMessage, response: ServerResponse): boolean {
    if (server.mode === 'refuse') response.writeHead(503).end('down for repair')
    else if (request.method !== 'POST') response.writeHead(405).end()
    else if (server.authorization !== null && request.headers.authorization !== server.authorization)
      response.writeHead(401, { 'www-authenticate': 'Bearer realm="math"' }).end()
    return response.headersSent
  }

  const http = createServer(async (request, response) => {
    if (isAside(request, response)) return
    if (request.method === 'DELETE') sessions.delete(String(request.headers['mcp-session-id']))
    if (refuse(request, response)) return
    const message = JSON.parse(await readText(request))
    server.received.push({ method: message.method, params: message.params ?? {}, headers: request.headers })
    if (server.mode === 'forget') {
      sessions.clear()
      server.mode = 'well'
    }
    if (message.method === 'initialize') {
      count += 1
      sessions.add(`session-${count}`)
      response.setHeader('mcp-session-id', `session-${count}`)
    } else if (message.method === 'tools/call' && server.mode === 'deny') {
      return void response.writeHead(410).end('gone')
    } else if (message.method !== 'server/discover' && !sessions.has(String(request.headers['mcp-session-id']))) {
      const { status, body } = server.onUnknownSession
      return void response.writeHead(status, { 'content-type': 'application/json' }).end(body)
    }
    if (message.id === undefined) return void response.writeHead(202).end()
    send(response, { jsonrpc: '2.0', id: message.id, ...(await answerTo(message.method, message.params ?? {})) })
  })

  function send(response: ServerResponse, body: object): void {
    const text = JSON.stringify(body).replace(/\{"rawJson":"([^"]*)"\}/, '$1')
    response.setHeader('content-type', server.streams ? 'text/event-stream' : 'application/json')
    response.end(server.streams ? `event: message\ndata: ${text}\n\n` : text)
  }

  async function answerTo(method: string, params: Record<string, unknown>): Promise<object> {
    switch (method) {
      case 'initialize':
        return {
          result: {
            protocolVersion: '2025-06-18',
            capabilities: { tools: {} },
            serverInfo: { name: 'test', version: '1.0.0' },
          },
        }
      case 'tools/list':
        return { result: listing(params.cursor) }
      case 'tools/call': {
        const tool = server.tools.find(({ name }) => name === params.name)
        if (tool === undefined) return { error: { code: -32602, message: `Unknown tool: ${params.name}` } }
        const input = (params.arguments ?? {}) as Record<string, unknown>
        return { result: (await tool.answer?.(input)) ?? { content: [{ type: 'text', text: 'done' }] } }
      }
      default:
        return { error: { code: -32601, message: 'Method not found' } }
    }
  }

  /** Lists two tools per page. */
  function listing(cursor: unknown): object {
    const from = Number(cursor ?? 0)
    const page = server.tools.slice(from, from + 2).map(({ name, description, inputSchema }) => ({
      name,
      description,
      inputSchema: inputSchema ?? { type: 'object', properties: {} },
    }))
    return from + 2 < server.tools.length ? { tools: page, nextCursor: String(from + 2) } : { tools: page }
  }

  await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve))
  const server: McpServer = {
    url: `http://127.0.0.1:${(http.address() as AddressInfo).port}/mcp`,
    tools,
    received: [],
    mode: 'well',
    onUnknownSession: { status: 404, body: 'no such session' },
    authorization: null,
    aside: null,
    streams: false,
    close() {
      http.closeAllConnections()
      return new Promise((resolve) => http.close(() => resolve()))
    },
  }
  return server
}

async function readText(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk)
  return Buffer.concat(chunks).toString('utf8')
}
