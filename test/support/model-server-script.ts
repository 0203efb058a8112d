import type { IncomingHttpHeaders } from 'node:http'

/** One message of a request, in the form common to all endpoints. */
export interface ModelMessage {
  role: 'system' | 'user' | 'assistant' | 'tool'
  text: string
  /** For an assistant message. `input` is the parsed input, or its text if the input is not JSON. */
  toolCalls: { id: string; name: string; input: unknown }[]
  /** For a tool message: the id of the call. */
  toolCallId: string | null
}

/** The protocols of a model server: Chat Completions, OpenAI's Responses, Anthropic's Messages, and Google's Gemini API. */
export type Endpoint = 'chat' | 'responses' | 'anthropic' | 'google'

/** One requested generation, as scripts and assertions see it. */
export interface ModelRequest {
  /** The position among the requests that the server accepted, from 1 on. */
  n: number
  endpoint: Endpoint
  model: string
  /** The system messages, joined by a blank line. */
  instructions: string
  /** Every message, including the system messages. */
  messages: ModelMessage[]
  toolNames: string[]
  /** The number of generations with tool calls since the last user message; 0 in the first step of a run. */
  step: number
  // biome-ignore lint/suspicious/noExplicitAny: the wire body, read freely by tests
  body: any
  headers: IncomingHttpHeaders
  /** Aborts when the client disconnects before the generation is complete. */
  signal: AbortSignal
  /** Settles when the exchange has ended. */
  ended: Promise<'finished' | 'aborted' | 'disconnected'>
}

export interface Chunking {
  /**
   * The length of a piece in code points (by default 5), or the pieces themselves. The server waits for promises among the
   * pieces, so that a test can see the effect of the earlier pieces. The pieces of a tool call are parts of its input's JSON
   * text.
   */
  chunks?: number | (string | Promise<unknown>)[]
  /** The server waits for this between any two pieces. */
  delayMs?: number
  /** Called with the index of each piece except the first, before the server sends that piece. The server awaits the result. */
  gate?: (index: number) => Promise<unknown> | undefined
}

export interface TokenFigures {
  inputTokens: number
  outputTokens: number
  reasoningTokens?: number
  /** The pieces of the input. */
  cachedInputTokens?: number
}

/** One action of the model in a generation. If there is no `finish`, the server sends the appropriate one at the end. */
export type ModelAction =
  | ({ text: string } & Chunking)
  | ({ reasoning: string } & Chunking)
  /** If `input` is a string, it is the JSON text itself, which can be malformed. */
  | ({ toolCall: string; input?: unknown; id?: string } & Chunking)
  | { delayMs: number }
  | { gate: Promise<unknown> }
  /** The usage that the server reports; null for none. By default, it is estimated from the lengths. */
  | { usage: TokenFigures | null }
  /** The finish reason; with `none`, the stream ends without one. */
  | { finish: 'stop' | 'tool_calls' | 'length' | 'content_filter' | 'none' }
  /** As the first action: an HTTP error, by default with status 500. Later: an error frame in the stream. */
  | { error: string; status?: number; code?: string; body?: unknown; headers?: Record<string, string> }
  /** Sends nothing more until the client disconnects. */
  | { hang: true }
  /** Cuts the connection. */
  | { disconnect: true }

/** Returns the actions of the model for a request; undefined if the previously registered script decides. */
export type ModelScript = (request: ModelRequest) => ModelAction[] | undefined | Promise<ModelAction[] | undefined>

/**
 * The part of a generation that depends on the wire format of the endpoint. Nothing is sent before the first call of one of
 * these functions.
 */
export interface WireWriter {
  open(part: { type: 'text' } | { type: 'reasoning' } | { type: 'toolCall'; id: string; name: string }): OpenPart
  finish(reason: string | null, usage: TokenFigures | null): void
  error(message: string, code: string): void
}

export interface OpenPart {
  delta(piece: string): void
  close(): void
}

/** Why a provider would refuse a request. The server responds with status 400. */
export class RefusedRequest extends Error {}

/**
 * Returns a script with one generation per step: `steps([first actions], [second …])`. After the last step, it sends the text
 * "Done.".
 */
export function steps(...generations: ModelAction[][]): ModelScript {
  return (request) => generations[request.step] ?? [{ text: 'Done.' }]
}

/** Returns a script with one generation per request, in order of arrival. After the last one, other scripts decide. */
export function inTurn(...generations: ModelAction[][]): ModelScript {
  const waiting = [...generations]
  return () => waiting.shift()
}

/** Restricts a script to the requests of the agent whose name is at the beginning of the instructions, as in our prompts. */
export function forAgent(name: string, script: ModelScript): ModelScript {
  return (request) => (request.instructions.includes(`You are ${name}`) ? script(request) : undefined)
}

/** Restricts a script to the requests that meet a condition. */
export function when(condition: (request: ModelRequest) => boolean, script: ModelScript): ModelScript {
  return (request) => (condition(request) ? script(request) : undefined)
}

/** Returns the pieces of an action's text, including the promises to wait for. */
export function piecesOf(
  text: string,
  { chunks = 5, delayMs, gate }: Chunking,
): (string | (() => Promise<unknown> | undefined))[] {
  const pieces = Array.isArray(chunks) ? chunks : cutIntoPieces(text, chunks)
  let index = -1
  return pieces.flatMap((piece) => {
    if (typeof piece !== 'string') return [() => piece]
    index += 1
    const at = index
    if (at === 0) return [piece]
    const pause = delayMs === undefined ? [] : [() => new Promise((resolve) => setTimeout(resolve, delayMs))]
    const wait = gate === undefined ? [] : [() => gate(at)]
    return [...pause, ...wait, piece]
  })
}

function cutIntoPieces(text: string, length: number): string[] {
  const points = [...text]
  return Array.from({ length: Math.ceil(points.length / length) }, (_, index) =>
    points.slice(index * length, (index + 1) * length).join(''),
  )
}
