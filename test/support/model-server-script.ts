import type { IncomingHttpHeaders } from 'node:http'

/** One message of a request, from any endpoint. */
export interface ModelMessage {
  role: 'system' | 'user' | 'assistant' | 'tool'
  text: string
  /** For an assistant message. `input` is the parsed input, or its text if that is not JSON. */
  toolCalls: { id: string; name: string; input: unknown }[]
  /** For a tool message: the id of its call. */
  toolCallId: string | null
}

/**
 * The protocols of a model server: Chat Completions, OpenAI's Responses, Anthropic's Messages, or Google's Gemini
 * API.
 */
export type Endpoint = 'chat' | 'responses' | 'anthropic' | 'google'

/** One requested generation, as scripts and assertions see it. */
export interface ModelRequest {
  /** 1 for the first request that the server accepted. */
  n: number
  endpoint: Endpoint
  model: string
  /** The system messages, joined by a blank line. */
  instructions: string
  /** Every message, including the system messages. */
  messages: ModelMessage[]
  toolNames: string[]
  /** How many generations with tool calls followed the last user message: 0 in a run's first step. */
  step: number
  // biome-ignore lint/suspicious/noExplicitAny: the wire body, read freely by tests
  body: any
  headers: IncomingHttpHeaders
  /** Aborts when the client disconnects before the generation is complete. */
  signal: AbortSignal
  /** Settles with the end of the exchange. */
  ended: Promise<'finished' | 'aborted' | 'disconnected'>
}

export interface Chunking {
  /**
   * The length of a piece in code points (by default 5), or the pieces themselves. The server waits for promises
   * among the pieces, so that a test can see the effect of the earlier pieces. The pieces of a tool call are parts of its
   * input's JSON text.
   */
  chunks?: number | (string | Promise<unknown>)[]
  /** The server waits for this between any two pieces. */
  delayMs?: number
  /** The server calls this before each piece except the first, with the piece's index, and awaits the result. */
  gate?: (index: number) => Promise<unknown> | undefined
}

export interface TokenFigures {
  inputTokens: number
  outputTokens: number
  reasoningTokens?: number
  /** The pieces of the input. */
  cachedInputTokens?: number
}

/** One action of the model in a generation. Without a `finish`, the server sends the appropriate one at the end. */
export type ModelAction =
  | ({ text: string } & Chunking)
  | ({ reasoning: string } & Chunking)
  /** `input` may be a string: the JSON text itself, well-formed or not. */
  | ({ toolCall: string; input?: unknown; id?: string } & Chunking)
  | { delayMs: number }
  | { gate: Promise<unknown> }
  /** The reported usage; null if the provider reports none. By default estimated from the lengths. */
  | { usage: TokenFigures | null }
  /** The finish reason; with `none`, the stream ends without one. */
  | { finish: 'stop' | 'tool_calls' | 'length' | 'content_filter' | 'none' }
  /** As the first action, an HTTP error (by default status 500); as a later one, an error frame in the stream. */
  | { error: string; status?: number; code?: string; body?: unknown; headers?: Record<string, string> }
  /** Sends nothing more until the client disconnects. */
  | { hang: true }
  /** Cuts the connection. */
  | { disconnect: true }

/** Returns the actions of the model for a request; undefined leaves it to the previously registered script. */
export type ModelScript = (request: ModelRequest) => ModelAction[] | undefined | Promise<ModelAction[] | undefined>

/**
 * The part of a generation that depends on the endpoint's wire format. Nothing is sent before the first call of
 * these.
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

/** Why a provider refuses a request: the response has status 400. */
export class RefusedRequest extends Error {}

/** A script of one generation per step: `steps([first actions], [second …])`; after the last, the text "Done.". */
export function steps(...generations: ModelAction[][]): ModelScript {
  return (request) => generations[request.step] ?? [{ text: 'Done.' }]
}

/** A script of one generation per request, in order of arrival; after the last it leaves requests to other scripts. */
export function inTurn(...generations: ModelAction[][]): ModelScript {
  const waiting = [...generations]
  return () => waiting.shift()
}

/** Narrows a script to the requests of the agent whose name starts the instructions, as in our prompts. */
export function forAgent(name: string, script: ModelScript): ModelScript {
  return (request) => (request.instructions.includes(`You are ${name}`) ? script(request) : undefined)
}

/** Narrows a script to the requests that meet a condition. */
export function when(condition: (request: ModelRequest) => boolean, script: ModelScript): ModelScript {
  return (request) => (condition(request) ? script(request) : undefined)
}

/** The pieces of an action's text, with the promises to wait for. */
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
