import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

/** A tool of the server: what it is listed as, and what it answers. */
export interface ServedTool {
  name: string
  description?: string
  inputSchema?: object
  /** Within it, `{ rawJson }` stands for that JSON text. */
  answer?: (input: Record<string, unknown>) => object | Promise<object>
}

/** A Model Context Protocol server on a local port, by Streamable HTTP, for tests. */
export interface McpServer {
  url: string
  /** What it offers now; tests change it. */
  tools: ServedTool[]
  /** Every message that it got, oldest first. */
  received: { method: string; params: Record<string, unknown>; headers: IncomingMessage['headers'] }[]
  /** How it misbehaves: `hang` answers nothing, `refuse` answers with status 503, `forget` knows no session. */
  mode: 'well' | 'hang' | 'refuse' | 'forget'
  /** Answer by a stream of events in place of JSON. */
  streams: boolean
  close(): Promise<void>
}

export async function startMcpServer(tools: ServedTool[] = []): Promise<McpServer> {
  const sessions = new Set<string>()
  let count = 0

  const http = createServer(async (request, response) => {
    if (server.mode === 'hang') return
    if (server.mode === 'refuse') return void response.writeHead(503).end('down for repair')
    if (request.method === 'DELETE') sessions.delete(String(request.headers['mcp-session-id']))
    if (request.method !== 'POST') return void response.writeHead(405).end()
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
    } else if (message.method !== 'server/discover' && !sessions.has(String(request.headers['mcp-session-id']))) {
      return void response.writeHead(404).end('no such session')
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

  /** Two tools a page. */
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
