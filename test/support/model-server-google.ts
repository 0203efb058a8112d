import { parsedOrText } from './model-server-chat.ts'
import type { ModelMessage, OpenPart, TokenFigures, WireWriter } from './model-server-script.ts'
import { RefusedRequest } from './model-server-script.ts'

/** The wire format of POST /v1beta/models/<model>:streamGenerateContent (https://ai.google.dev/api/generate-content). */

interface Part {
  text?: string
  thought?: boolean
  thoughtSignature?: string
  functionCall?: { id?: string; name: string; args?: unknown }
  functionResponse?: { id?: string; name: string; response?: { content?: unknown; error?: unknown } }
}

interface GoogleBody {
  contents?: { role: 'user' | 'model'; parts: Part[] }[]
  systemInstruction?: { parts: Part[] }
  tools?: { functionDeclarations?: { name: string; parameters?: object }[] }[]
}

/** Reads the contents of a request. @throws RefusedRequest if the provider would refuse them */
export function readGoogleContents(body: GoogleBody): ModelMessage[] {
  const { contents = [], systemInstruction } = body
  if (contents.length === 0) throw new RefusedRequest('GenerateContentRequest.contents: contents is not specified')
  for (const [index, { parts }] of contents.entries()) {
    if (parts.length === 0)
      throw new RefusedRequest(`GenerateContentRequest.contents[${index}].parts: must not be empty`)
    refuseUnanswered(parts, contents[index + 1]?.parts ?? [])
    refuseUnsigned(parts, index)
  }
  const system = (systemInstruction?.parts ?? []).map(({ text = '' }) => message('system', text))
  return [...system, ...contents.flatMap(messagesOf)]
}

/** A tool without parameters has no schema. */
export function readGoogleTools({ tools = [] }: GoogleBody) {
  return tools.flatMap(({ functionDeclarations = [] }) =>
    functionDeclarations.map(({ name, parameters }) => ({ name, parameters: parameters ?? { type: 'object' } })),
  )
}

function refuseUnanswered(parts: Part[], next: Part[]): void {
  const calls = parts.filter(({ functionCall }) => functionCall !== undefined).length
  const results = next.filter(({ functionResponse }) => functionResponse !== undefined).length
  if (calls === results) return
  throw new RefusedRequest(
    'Please ensure that the number of function response parts is equal to the number of function call parts of the function call turn.',
  )
}

/** A signature must come from this server, which signs the first call of each response. */
function refuseUnsigned(parts: Part[], index: number): void {
  for (const { thoughtSignature } of parts) {
    if (thoughtSignature === undefined || /^signature:|^skip_thought_signature_validator$/.test(thoughtSignature))
      continue
    throw new RefusedRequest(`Corrupted thought signature in contents[${index}].`)
  }
}

function messagesOf({ role, parts }: { role: 'user' | 'model'; parts: Part[] }): ModelMessage[] {
  const text = parts.map((part) => (part.thought ? '' : (part.text ?? ''))).join('')
  if (role === 'model') {
    const toolCalls = parts.flatMap(({ functionCall }) =>
      functionCall === undefined
        ? []
        : [{ id: functionCall.id ?? '', name: functionCall.name, input: functionCall.args }],
    )
    return [{ ...message('assistant', text), toolCalls }]
  }
  const results = parts.flatMap(({ functionResponse }) => (functionResponse === undefined ? [] : [functionResponse]))
  const told = results.map(({ id = null, response }) => ({
    ...message('tool', asText(response?.content ?? response?.error)),
    toolCallId: id,
  }))
  return text === '' ? told : [...told, message('user', text)]
}

function asText(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value)
}

function message(role: ModelMessage['role'], text: string): ModelMessage {
  return { role, text, toolCalls: [], toolCallId: null }
}

const FINISH_REASONS: Record<string, string> = {
  stop: 'STOP',
  tool_calls: 'STOP',
  length: 'MAX_TOKENS',
  content_filter: 'SAFETY',
}

export function createGoogleWriter(send: (data: string) => void, request: { model: string; id: string }): WireWriter {
  let calls = 0

  function emit(parts: Part[], more: object = {}, figures: object = {}): void {
    const content = parts.length === 0 ? {} : { content: { role: 'model', parts } }
    send(
      `data: ${JSON.stringify({ candidates: [{ ...content, index: 0, ...more }], modelVersion: request.model, ...figures })}\r\n\r\n`,
    )
  }

  /** A call arrives in one piece. The first call of a response has a signature. */
  function openCall({ id, name }: { id: string; name: string }): OpenPart {
    let text = ''
    return {
      delta(piece) {
        text += piece
      },
      close() {
        const signed = calls === 0 ? { thoughtSignature: `signature:${request.id}` } : {}
        calls += 1
        emit([{ functionCall: { id, name, args: parsedOrText(text) }, ...signed }])
      },
    }
  }

  return {
    open(part) {
      if (part.type === 'toolCall') return openCall(part)
      const thought = part.type === 'reasoning' ? { thought: true } : {}
      return { delta: (text) => emit([{ text, ...thought }]), close() {} }
    },
    finish(reason, usage) {
      if (reason === null) return
      emit([], { finishReason: FINISH_REASONS[reason] ?? reason }, usage === null ? {} : googleUsage(usage))
    },
    error(text) {
      send(`data: ${JSON.stringify({ error: { code: 500, message: text, status: 'INTERNAL' } })}\r\n\r\n`)
    },
  }
}

function googleUsage({ inputTokens, outputTokens, cachedInputTokens = 0, reasoningTokens = 0 }: TokenFigures): object {
  return {
    usageMetadata: {
      promptTokenCount: inputTokens,
      cachedContentTokenCount: cachedInputTokens,
      candidatesTokenCount: outputTokens - reasoningTokens,
      thoughtsTokenCount: reasoningTokens,
      totalTokenCount: inputTokens + outputTokens,
    },
  }
}

export function googleError(message: string, status: number): object {
  return { error: { code: status, message, status: 'UNAVAILABLE' } }
}
