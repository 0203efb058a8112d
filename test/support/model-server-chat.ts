import type { ModelMessage, OpenPart, TokenFigures, WireWriter } from './model-server-script.ts'
import { RefusedRequest } from './model-server-script.ts'

/** The wire format of POST /v1/chat/completions (https://platform.openai.com/docs/api-reference/chat-streaming). */

interface ChatToolCall {
  id: string
  function: { name: string; arguments: string }
}

interface ChatMessage {
  role: 'system' | 'developer' | 'user' | 'assistant' | 'tool'
  content?: string | { type: string; text?: string }[] | null
  tool_calls?: ChatToolCall[]
  tool_call_id?: string
}

/** Reads the messages of a request. @throws RefusedRequest if the provider would refuse them */
export function readChatMessages(body: { messages?: unknown }): ModelMessage[] {
  if (!Array.isArray(body.messages) || body.messages.length === 0) {
    throw new RefusedRequest("Invalid 'messages': empty array. Expected an array with minimum length 1.")
  }
  const messages = body.messages as ChatMessage[]
  refuseUnbalanced(messages)
  return messages.map((message) => ({
    role: message.role === 'developer' ? 'system' : message.role,
    text: textOf(message.content),
    toolCalls: (message.tool_calls ?? []).map((call) => ({
      id: call.id,
      name: call.function.name,
      input: parsedOrText(call.function.arguments),
    })),
    toolCallId: message.tool_call_id ?? null,
  }))
}

/** Each call needs a result, and the results must immediately follow the assistant message with the calls. */
function refuseUnbalanced(messages: ChatMessage[]): void {
  let open = new Set<string>()
  for (const [index, message] of messages.entries()) {
    if (message.role === 'tool') {
      if (message.tool_call_id === undefined || !open.delete(message.tool_call_id)) {
        throw new RefusedRequest(
          `Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'. (messages.[${index}].role)`,
        )
      }
      continue
    }
    refuseOpenCalls(open)
    open = new Set((message.tool_calls ?? []).map((call) => call.id))
  }
  refuseOpenCalls(open)
}

function refuseOpenCalls(open: Set<string>): void {
  if (open.size === 0) return
  throw new RefusedRequest(
    `An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. The following tool_call_ids did not have response messages: ${[...open].join(', ')}`,
  )
}

/** Returns the name and the parameters' schema of each tool in a request. */
export function readChatTools(body: { tools?: { function: { name: string; parameters?: unknown } }[] }) {
  return (body.tools ?? []).map((tool) => ({ name: tool.function.name, parameters: tool.function.parameters }))
}

export function createChatWriter(
  send: (data: string) => void,
  request: { model: string; id: string; includeUsage: boolean },
): WireWriter {
  let toolCallCount = 0
  let begun = false

  function sendChunk(choice: object | null, usage?: object | null): void {
    const chunk = {
      id: `chatcmpl-${request.id}`,
      object: 'chat.completion.chunk',
      created: 1_700_000_000,
      model: request.model,
      choices: choice === null ? [] : [{ index: 0, logprobs: null, finish_reason: null, ...choice }],
      ...(usage === undefined ? {} : { usage }),
    }
    send(`data: ${JSON.stringify(chunk)}\n\n`)
  }

  function sendDelta(delta: object): void {
    if (!begun) sendChunk({ delta: { role: 'assistant', content: null, refusal: null } })
    begun = true
    sendChunk({ delta })
  }

  function open(part: Parameters<WireWriter['open']>[0]): OpenPart {
    if (part.type === 'text') return { delta: (content) => sendDelta({ content }), close() {} }
    // vLLM and others send this field, but OpenAI does not. @ai-sdk/openai ignores it.
    if (part.type === 'reasoning') return { delta: (text) => sendDelta({ reasoning_content: text }), close() {} }
    const index = toolCallCount++
    sendDelta({ tool_calls: [{ index, id: part.id, type: 'function', function: { name: part.name, arguments: '' } }] })
    return { delta: (text) => sendDelta({ tool_calls: [{ index, function: { arguments: text } }] }), close() {} }
  }

  return {
    open,
    finish(reason, usage) {
      if (reason !== null) {
        sendChunk({ delta: {}, finish_reason: reason })
        if (request.includeUsage && usage !== null) sendChunk(null, chatUsage(usage))
        send('data: [DONE]\n\n')
      }
    },
    error(message, code) {
      send(`data: ${JSON.stringify({ error: { message, type: 'server_error', param: null, code } })}\n\n`)
    },
  }
}

function chatUsage({ inputTokens, outputTokens, reasoningTokens = 0, cachedInputTokens = 0 }: TokenFigures): object {
  return {
    prompt_tokens: inputTokens,
    completion_tokens: outputTokens,
    total_tokens: inputTokens + outputTokens,
    prompt_tokens_details: { cached_tokens: cachedInputTokens },
    completion_tokens_details: { reasoning_tokens: reasoningTokens },
  }
}

/** Returns the text of a message's content, in either of its forms. */
export function textOf(content: ChatMessage['content']): string {
  if (typeof content === 'string') return content
  return (content ?? []).map((part) => part.text ?? '').join('')
}

/** Returns the value of a JSON text, or the text itself if it is not JSON. */
export function parsedOrText(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}
