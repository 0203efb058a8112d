import { parsedOrText, textOf } from './model-server-chat.ts'
import type { ModelMessage, OpenPart, TokenFigures, WireWriter } from './model-server-script.ts'
import { RefusedRequest } from './model-server-script.ts'

/** The wire format of POST /v1/responses (https://platform.openai.com/docs/api-reference/responses-streaming). */

interface InputItem {
  type?: string
  role?: 'system' | 'developer' | 'user' | 'assistant'
  content?: string | { type: string; text?: string }[]
  id?: string
  call_id?: string
  name?: string
  arguments?: string
  output?: string | { type: string; text?: string }[]
  encrypted_content?: string | null
}

/**
 * Reads the input of a request as messages. This server stores no responses, so it refuses references to them. @throws
 * RefusedRequest if the provider would refuse the input
 */
export function readResponsesInput(body: {
  input?: unknown
  previous_response_id?: string
  instructions?: string
}): ModelMessage[] {
  if (!Array.isArray(body.input) || body.input.length === 0) {
    throw new RefusedRequest("Invalid 'input': empty array. Expected an array with minimum length 1.")
  }
  if (body.previous_response_id !== undefined) {
    throw new RefusedRequest(`Previous response with id '${body.previous_response_id}' not found.`)
  }
  const items = body.input as InputItem[]
  refuseReferences(items)
  refuseUnbalanced(items)
  const messages = items.reduce<ModelMessage[]>((read, item) => appendItem(read, item), [])
  return body.instructions === undefined ? messages : [message('system', body.instructions), ...messages]
}

function refuseReferences(items: InputItem[]): void {
  for (const [index, item] of items.entries()) {
    if (item.type === 'item_reference') {
      throw new RefusedRequest(
        `Item with id '${item.id}' not found. Items are not persisted when \`store\` is set to false.`,
      )
    }
    const next = items[index + 1]
    if (
      item.type === 'reasoning' &&
      (next === undefined || next.role === 'user' || next.type === 'function_call_output')
    ) {
      throw new RefusedRequest(
        `Item '${item.id}' of type 'reasoning' was provided without its required following item.`,
      )
    }
    if (item.type === 'reasoning' && !item.encrypted_content?.startsWith('encrypted:')) {
      throw new RefusedRequest(`The encrypted content for item ${item.id} could not be verified.`)
    }
  }
}

function refuseUnbalanced(items: InputItem[]): void {
  const open = new Set<string>()
  for (const item of items) {
    if (item.type === 'function_call') open.add(item.call_id ?? '')
    if (item.type === 'function_call_output' && !open.delete(item.call_id ?? '')) {
      throw new RefusedRequest(`No tool call found for function call output with call_id ${item.call_id}.`)
    }
  }
  const [unanswered] = open
  if (unanswered !== undefined) throw new RefusedRequest(`No tool output found for function call ${unanswered}.`)
}

/** The items of one assistant turn become one message, as in Chat Completions. */
function appendItem(messages: ModelMessage[], item: InputItem): ModelMessage[] {
  if (item.type === 'reasoning') return messages
  if (item.type === 'function_call_output') {
    return [...messages, { ...message('tool', textOf(item.output)), toolCallId: item.call_id ?? null }]
  }
  if (item.type === 'function_call') {
    const call = { id: item.call_id ?? '', name: item.name ?? '', input: parsedOrText(item.arguments ?? '') }
    const last = messages.at(-1)
    if (last?.role !== 'assistant') return [...messages, { ...message('assistant', ''), toolCalls: [call] }]
    return [...messages.slice(0, -1), { ...last, toolCalls: [...last.toolCalls, call] }]
  }
  const role = item.role === 'developer' ? 'system' : (item.role ?? 'user')
  return [...messages, message(role, textOf(item.content))]
}

function message(role: ModelMessage['role'], text: string): ModelMessage {
  return { role, text, toolCalls: [], toolCallId: null }
}

/** Returns the name and the parameters' schema of each tool in a request. */
export function readResponsesTools(body: { tools?: { name: string; parameters?: unknown }[] }) {
  return (body.tools ?? []).map((tool) => ({ name: tool.name, parameters: tool.parameters }))
}

type PartToOpen = Parameters<WireWriter['open']>[0]

export function createResponsesWriter(
  send: (data: string) => void,
  request: { model: string; id: string; includeEncryptedReasoning: boolean },
): WireWriter {
  const response = {
    id: `resp_${request.id}`,
    object: 'response',
    created_at: 1_700_000_000,
    model: request.model,
    output: [],
  }
  let sequence = 0
  let outputIndex = -1

  function emit(type: string, fields: object): void {
    send(`event: ${type}\ndata: ${JSON.stringify({ type, sequence_number: sequence++, ...fields })}\n\n`)
  }

  function begin(): void {
    if (sequence > 0) return
    emit('response.created', { response: { ...response, status: 'in_progress' } })
    emit('response.in_progress', { response: { ...response, status: 'in_progress' } })
  }

  function open(part: PartToOpen): OpenPart {
    begin()
    outputIndex += 1
    const place = { item_id: `${ITEM_PREFIX[part.type]}_${request.id}_${outputIndex}`, output_index: outputIndex }
    if (part.type === 'text') return openText(emit, place)
    if (part.type === 'reasoning') return openReasoning(emit, place, request.includeEncryptedReasoning)
    return openToolCall(emit, place, part)
  }

  return {
    open,
    finish(reason, usage) {
      begin()
      if (reason === null) return
      const cut = reason === 'length' ? 'max_output_tokens' : reason === 'content_filter' ? 'content_filter' : null
      const status = cut === null ? 'completed' : 'incomplete'
      const details = cut === null ? null : { reason: cut }
      emit(`response.${status}`, {
        response: {
          ...response,
          status,
          incomplete_details: details,
          usage: usage === null ? null : responsesUsage(usage),
        },
      })
    },
    error(text, code) {
      emit('error', { code, message: text, param: null })
    },
  }
}

const ITEM_PREFIX = { text: 'msg', reasoning: 'rs', toolCall: 'fc' } as const

type Emit = (type: string, fields: object) => void
interface Place {
  item_id: string
  output_index: number
}

function openText(emit: Emit, place: Place): OpenPart {
  let text = ''
  const item = { id: place.item_id, type: 'message', role: 'assistant' }
  const part = { ...place, content_index: 0 }
  emit('response.output_item.added', { ...place, item: { ...item, status: 'in_progress', content: [] } })
  emit('response.content_part.added', { ...part, part: { type: 'output_text', annotations: [], text: '' } })
  return {
    delta(piece) {
      text += piece
      emit('response.output_text.delta', { ...part, delta: piece, logprobs: [] })
    },
    close() {
      const content = { type: 'output_text', annotations: [], text }
      emit('response.output_text.done', { ...part, text })
      emit('response.content_part.done', { ...part, part: content })
      emit('response.output_item.done', { ...place, item: { ...item, status: 'completed', content: [content] } })
    },
  }
}

function openReasoning(emit: Emit, place: Place, encrypted: boolean): OpenPart {
  let text = ''
  const part = { ...place, summary_index: 0 }
  const item = (content: string) => ({
    id: place.item_id,
    type: 'reasoning',
    summary: text === '' ? [] : [{ type: 'summary_text', text }],
    ...(encrypted ? { encrypted_content: content } : {}),
  })
  emit('response.output_item.added', { ...place, item: item('encrypted:begun') })
  emit('response.reasoning_summary_part.added', { ...part, part: { type: 'summary_text', text: '' } })
  return {
    delta(piece) {
      text += piece
      emit('response.reasoning_summary_text.delta', { ...part, delta: piece })
    },
    close() {
      emit('response.reasoning_summary_text.done', { ...part, text })
      emit('response.reasoning_summary_part.done', { ...part, part: { type: 'summary_text', text } })
      emit('response.output_item.done', { ...place, item: item(`encrypted:${place.item_id}`) })
    },
  }
}

function openToolCall(emit: Emit, place: Place, { id, name }: { id: string; name: string }): OpenPart {
  let text = ''
  const item = () => ({ id: place.item_id, type: 'function_call', call_id: id, name, arguments: text })
  emit('response.output_item.added', { ...place, item: { ...item(), status: 'in_progress' } })
  return {
    delta(piece) {
      text += piece
      emit('response.function_call_arguments.delta', { ...place, delta: piece })
    },
    close() {
      emit('response.function_call_arguments.done', { ...place, arguments: text })
      emit('response.output_item.done', { ...place, item: { ...item(), status: 'completed' } })
    },
  }
}

function responsesUsage({
  inputTokens,
  outputTokens,
  reasoningTokens = 0,
  cachedInputTokens = 0,
}: TokenFigures): object {
  return {
    input_tokens: inputTokens,
    input_tokens_details: { cached_tokens: cachedInputTokens },
    output_tokens: outputTokens,
    output_tokens_details: { reasoning_tokens: reasoningTokens },
    total_tokens: inputTokens + outputTokens,
  }
}
