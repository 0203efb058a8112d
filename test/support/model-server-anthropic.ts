import type { ModelMessage, OpenPart, TokenFigures, WireWriter } from './model-server-script.ts'
import { RefusedRequest } from './model-server-script.ts'

/** The wire format of POST /v1/messages (https://docs.anthropic.com/en/api/messages-streaming). */

interface Block {
  type: string
  text?: string
  thinking?: string
  signature?: string
  id?: string
  name?: string
  input?: unknown
  tool_use_id?: string
  content?: string | { type: string; text?: string }[]
  cache_control?: object
}

interface Turn {
  role: 'user' | 'assistant'
  content: string | Block[]
}

interface AnthropicBody {
  system?: Block[]
  messages?: Turn[]
  tools?: { name: string; input_schema?: unknown; cache_control?: object }[]
  max_tokens?: number
  thinking?: { type: string }
}

/** Reads the messages of a request. @throws RefusedRequest if the provider would refuse them */
export function readAnthropicMessages(body: AnthropicBody): ModelMessage[] {
  const { system = [], messages = [], max_tokens } = body
  if (max_tokens === undefined) throw new RefusedRequest('max_tokens: Field required')
  if (messages[0]?.role !== 'user') throw new RefusedRequest('messages: first message must use the "user" role')
  const turns = messages.map(({ role, content }) => ({ role, blocks: blocksOf(content) }))
  refuseMarks([...system, ...turns.flatMap(({ blocks }) => blocks), ...(body.tools ?? [])])
  for (const [index, { blocks }] of turns.entries()) refuseBlocks(blocks, index)
  refuseUnbalanced(turns)
  if (body.thinking?.type === 'enabled') refuseThoughtless(turns)
  return [...system.map(({ text = '' }) => message('system', text)), ...turns.flatMap(messagesOf)]
}

export function readAnthropicTools({ tools = [] }: AnthropicBody) {
  return tools.map(({ name, input_schema }) => ({ name, parameters: input_schema }))
}

function blocksOf(content: Turn['content']): Block[] {
  return typeof content === 'string' ? [{ type: 'text', text: content }] : content
}

function refuseMarks(marked: { cache_control?: object }[]): void {
  const count = marked.filter(({ cache_control }) => cache_control !== undefined).length
  if (count > 4) throw new RefusedRequest(`A maximum of 4 blocks with cache_control may be provided. Found ${count}.`)
}

function refuseBlocks(blocks: Block[], index: number): void {
  for (const { type, text, signature, id } of blocks) {
    if (type === 'text' && text === '') throw new RefusedRequest('messages: text content blocks must be non-empty')
    if (type === 'thinking' && !signature?.startsWith('signature:')) {
      throw new RefusedRequest(`messages.${index}.content.0: Invalid \`signature\` in \`thinking\` block`)
    }
    if (type === 'tool_use' && !/^[a-zA-Z0-9_-]+$/.test(id ?? '')) {
      throw new RefusedRequest(
        `messages.${index}.content.0.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'`,
      )
    }
  }
}

type ReadTurn = { role: Turn['role']; blocks: Block[] }

function refuseUnbalanced(turns: ReadTurn[]): void {
  for (const [index, { blocks }] of turns.entries()) {
    const calls = blocks.flatMap(({ type, id = '' }) => (type === 'tool_use' ? [id] : []))
    const next = turns[index + 1]?.blocks ?? []
    const results = next.flatMap(({ type, tool_use_id = '' }) => (type === 'tool_result' ? [tool_use_id] : []))
    const open = calls.filter((id) => !results.includes(id))
    if (open.length > 0) {
      throw new RefusedRequest(
        `messages.${index}: \`tool_use\` ids were found without \`tool_result\` blocks immediately after: ${open.join(', ')}.`,
      )
    }
    const stray = results.filter((id) => !calls.includes(id))
    if (stray.length > 0) {
      throw new RefusedRequest(
        `messages.${index + 1}: unexpected \`tool_use_id\` found in \`tool_result\` blocks: ${stray.join(', ')}.`,
      )
    }
  }
}

/** A turn with tool use must begin with the reasoning that preceded it. */
function refuseThoughtless(turns: ReadTurn[]): void {
  const last = turns.findLastIndex(({ role }) => role === 'assistant')
  const [first] = turns[last]?.blocks ?? []
  const isUsingTools = turns[last + 1]?.blocks.some(({ type }) => type === 'tool_result') === true
  if (!isUsingTools || first === undefined || first.type.includes('thinking')) return
  throw new RefusedRequest(
    `messages.${last}.content.0.type: Expected \`thinking\` or \`redacted_thinking\`, but found \`${first.type}\`. When \`thinking\` is enabled, a final \`assistant\` message must start with a thinking block.`,
  )
}

function messagesOf({ role, blocks }: ReadTurn): ModelMessage[] {
  const results = blocks.filter(({ type }) => type === 'tool_result')
  const text = blocks.map((block) => (block.type === 'text' ? (block.text ?? '') : '')).join('')
  const toolCalls = blocks.flatMap(({ type, id = '', name = '', input }) =>
    type === 'tool_use' ? [{ id, name, input }] : [],
  )
  const told = results.map(({ content = '', tool_use_id = null }) => ({
    ...message('tool', typeof content === 'string' ? content : content.map((part) => part.text ?? '').join('')),
    toolCallId: tool_use_id,
  }))
  if (role === 'assistant') return [{ ...message('assistant', text), toolCalls }]
  return text === '' ? told : [...told, message('user', text)]
}

function message(role: ModelMessage['role'], text: string): ModelMessage {
  return { role, text, toolCalls: [], toolCallId: null }
}

const STOP_REASONS: Record<string, string> = {
  stop: 'end_turn',
  tool_calls: 'tool_use',
  length: 'max_tokens',
  content_filter: 'refusal',
}

export function createAnthropicWriter(
  send: (data: string) => void,
  request: { model: string; id: string },
): WireWriter {
  let index = -1
  let begun = false

  function emit(type: string, fields: object): void {
    send(`event: ${type}\ndata: ${JSON.stringify({ type, ...fields })}\n\n`)
  }

  function begin(): void {
    if (begun) return
    begun = true
    const usage = { input_tokens: 1, output_tokens: 1, cache_creation_input_tokens: 0, cache_read_input_tokens: 0 }
    const { id, model } = request
    emit('message_start', {
      message: { id: `msg_${id}`, type: 'message', role: 'assistant', model, content: [], stop_reason: null, usage },
    })
    emit('ping', {})
  }

  function open(part: Parameters<WireWriter['open']>[0]): OpenPart {
    begin()
    index += 1
    const at = index
    const delta = (fields: object) => emit('content_block_delta', { index: at, delta: fields })
    const close = () => emit('content_block_stop', { index: at })
    const start = (content_block: object) => emit('content_block_start', { index: at, content_block })
    if (part.type === 'text') {
      start({ type: 'text', text: '' })
      return { delta: (text) => delta({ type: 'text_delta', text }), close }
    }
    if (part.type === 'reasoning') {
      start({ type: 'thinking', thinking: '', signature: '' })
      const sign = () => delta({ type: 'signature_delta', signature: `signature:${request.id}:${at}` })
      return {
        delta: (thinking) => delta({ type: 'thinking_delta', thinking }),
        close() {
          sign()
          close()
        },
      }
    }
    start({ type: 'tool_use', id: part.id.replaceAll(/[^\w-]/g, '_'), name: part.name, input: {} })
    return { delta: (partial_json) => delta({ type: 'input_json_delta', partial_json }), close }
  }

  return {
    open,
    finish(reason, usage) {
      begin()
      if (reason === null) return
      emit('message_delta', {
        delta: { stop_reason: STOP_REASONS[reason] ?? reason, stop_sequence: null },
        usage: anthropicUsage(usage ?? { inputTokens: 0, outputTokens: 0 }),
      })
      emit('message_stop', {})
    },
    error(text, code) {
      emit('error', { error: { type: code === 'server_error' ? 'api_error' : code, message: text } })
    },
  }
}

/** In this format, `input_tokens` do not include those that were read from the cache. */
function anthropicUsage({ inputTokens, outputTokens, cachedInputTokens = 0 }: TokenFigures): object {
  return {
    input_tokens: inputTokens - cachedInputTokens,
    cache_read_input_tokens: cachedInputTokens,
    cache_creation_input_tokens: 0,
    output_tokens: outputTokens,
  }
}

export function anthropicError(message: string, code: string): object {
  return { type: 'error', error: { type: code, message } }
}
