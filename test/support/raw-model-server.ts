import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'

/** The response of a raw server: events as JSON or as text, or a whole response. */
export interface RawAnswer {
  events?: readonly (object | string)[]
  /** If false, the stream ends without `[DONE]`. */
  done?: boolean
  status?: number
  contentType?: string
  body?: string
}

/** A Chat Completions server that sends exactly the bytes that a test specifies, for responses that no correct server sends. */
export interface RawModelServer {
  baseUrl: string
  /** The requests for each model, oldest first. */
  // biome-ignore lint/suspicious/noExplicitAny: the wire body, read freely by tests
  requests: Map<string, any[]>
  /** Returns the response to a request for a model, given the number of earlier requests. */
  play(model: string, answer: (n: number) => RawAnswer): void
  close(): Promise<void>
}

export async function startRawModelServer(): Promise<RawModelServer> {
  const requests: RawModelServer['requests'] = new Map()
  const answers = new Map<string, (n: number) => RawAnswer>()
  const server = createServer((incoming, response) => {
    let text = ''
    incoming.on('data', (piece) => {
      text += piece
    })
    incoming.on('end', () => {
      const request = JSON.parse(text)
      const before = requests.get(request.model) ?? []
      requests.set(request.model, [...before, request])
      const answer = answers.get(request.model)?.(before.length) ?? {}
      const { events = [], done = true, status = 200, contentType = 'text/event-stream', body } = answer
      response.writeHead(status, { 'content-type': contentType })
      if (body !== undefined) return response.end(body)
      for (const event of events)
        response.write(typeof event === 'string' ? event : `data: ${JSON.stringify(event)}\n\n`)
      response.end(done ? 'data: [DONE]\n\n' : '')
    })
  })
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening))
  return {
    baseUrl: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    requests,
    play: (model, answer) => void answers.set(model, answer),
    close() {
      server.closeAllConnections()
      return new Promise((closed) => server.close(() => closed()))
    },
  }
}

/** Returns a chunk of Chat Completions. */
export const chunk = (delta: object, finish: string | null = null): object => ({
  id: 'x',
  object: 'chat.completion.chunk',
  created: 1,
  model: 'm',
  choices: [{ index: 0, delta, finish_reason: finish }],
})

export const FINISHED = chunk({}, 'stop')
export const CALLED = chunk({}, 'tool_calls')

/** Returns a tool call in a chunk. `input` is its JSON text, or another value that a server could send instead. */
export const called = (id: string, name: string, input: unknown): object => ({
  index: 0,
  id,
  type: 'function',
  function: { name, arguments: input },
})

/** Returns a call of send_message. */
export const saying = (id: string, text: string): object => called(id, 'send_message', JSON.stringify({ text }))
