import type { IncomingHttpHeaders } from 'node:http'

/** One message of a request, whichever endpoint it came by. */
export interface ModelMessage {
  role: 'system' | 'user' | 'assistant' | 'tool'
  text: string
  /** Of an assistant message. `input` is the parsed input, or its text where that is no JSON. */
  toolCalls: { id: string; name: string; input: unknown }[]
  /** Of a tool message: the call that it answers. */
  toolCallId: string | null
}

/** What a model server speaks: Chat Completions, OpenAI's Responses, Anthropic's Messages, or Google's Gemini API. */
export type Endpoint = 'chat' | 'responses' | 'anthropic' | 'google'

/** One generation that was asked for, as scripts and assertions see it. */
export interface ModelRequest {
  /** 1 for the first request that the server accepted. */
  n: number
  endpoint: Endpoint
  model: string
  /** The system messages, joined by a blank line. */
  instructions: string
  /** Every message, the system messages included. */
  messages: ModelMessage[]
  toolNames: string[]
  /** How many generations with tool calls followed the last user message: 0 in a run's first step. */
  step: number
  // biome-ignore lint/suspicious/noExplicitAny: the wire body, read freely by tests
  body: any
  headers: IncomingHttpHeaders
  /** Aborts when the client goes away before the generation was whole. */
  signal: AbortSignal
  /** Settles when the exchange is over, with how. */
  ended: Promise<'finished' | 'aborted' | 'disconnected'>
}

export interface Chunking {
  /**
   * A piece's length in code points (5 where not given), or the pieces themselves; a promise among them is waited for, so
   * that a test can see what the pieces before it caused. The pieces of a tool call are of its input's JSON text.
   */
  chunks?: number | (string | Promise<unknown>)[]
  /** Waited for between any two pieces. */
  delayMs?: number
  /** Called before each piece but the first with that piece's index; waited for. */
  gate?: (index: number) => Promise<unknown> | undefined
}

export interface TokenFigures {
  inputTokens: number
  outputTokens: number
  reasoningTokens?: number
  /** Of the input. */
  cachedInputTokens?: number
}

/** One thing that the model does in a generation. Without a `finish`, the fitting finish is sent at the end. */
export type ModelAction =
  | ({ text: string } & Chunking)
  | ({ reasoning: string } & Chunking)
  /** `input` may be a string: the JSON text itself, well-formed or not. */
  | ({ toolCall: string; input?: unknown; id?: string } & Chunking)
  | { delayMs: number }
  | { gate: Promise<unknown> }
  /** What the usage says; null: the provider gives none. Estimated from the lengths where not given. */
  | { usage: TokenFigures | null }
  /** Why the generation ends; `none`: the stream ends without saying that it has. */
  | { finish: 'stop' | 'tool_calls' | 'length' | 'content_filter' | 'none' }
  /** As the first action an HTTP error (status 500 where not given), later an error frame in the stream. */
  | { error: string; status?: number; code?: string; body?: unknown; headers?: Record<string, string> }
  /** Sends nothing more until the client gives up. */
  | { hang: true }
  /** Cuts the connection. */
  | { disconnect: true }

/** Says what the model does for a request; undefined leaves it to the script registered before. */
export type ModelScript = (request: ModelRequest) => ModelAction[] | undefined | Promise<ModelAction[] | undefined>

/** The part of a generation that an endpoint's wire format writes. Nothing is sent before the first of these is called. */
export interface WireWriter {
  open(part: { type: 'text' } | { type: 'reasoning' } | { type: 'toolCall'; id: string; name: string }): OpenPart
  finish(reason: string | null, usage: TokenFigures | null): void
  error(message: string, code: string): void
}

export interface OpenPart {
  delta(piece: string): void
  close(): void
}

/** Why a provider refuses a request: answered with status 400. */
export class RefusedRequest extends Error {}

/** A script of one generation a step: `steps([first actions], [second …])`; after the last, the text "Done.". */
export function steps(...generations: ModelAction[][]): ModelScript {
  return (request) => generations[request.step] ?? [{ text: 'Done.' }]
}

/** A script of one generation a request, in the order in which the requests arrive; then it passes on. */
export function inTurn(...generations: ModelAction[][]): ModelScript {
  const waiting = [...generations]
  return () => waiting.shift()
}

/** Narrows a script to the requests of the agent whose instructions begin with its name, as our prompts do. */
export function forAgent(name: string, script: ModelScript): ModelScript {
  return (request) => (request.instructions.includes(`You are ${name}`) ? script(request) : undefined)
}

/** Narrows a script to the requests that meet a condition. */
export function when(condition: (request: ModelRequest) => boolean, script: ModelScript): ModelScript {
  return (request) => (condition(request) ? script(request) : undefined)
}

/** The pieces of an action's text, the promises to wait for among them. */
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
