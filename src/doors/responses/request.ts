import { checkMessageText } from '../../lib/validate.ts'
import { badInput } from '../exchange.ts'

/** A request to `/v1/responses` or `/v1/chat/completions`. */
export interface ResponseRequest {
  /** The name of the model as the client sent it. */
  model: string | null
  agentId: string | null
  /** The human's new message. */
  text: string
  /**
   * The last turn in the history. Set only if the client keeps the history itself; null if the request begins a
   * conversation.
   */
  known: { asked: string; answered: string } | null
  previousId: string | null
  isStream: boolean
  background: boolean
  instructions: string | null
  metadata: Record<string, string>
  tools: unknown[]
  store: boolean
  includesUsage: boolean
}

type Fields = Readonly<Record<string, unknown>>

/** Matches the id of an agent anywhere in a model name. */
const AGENT_ID = /agt_[0-9a-f]{32}/

/** @throws DoorError */
function readFields(body: unknown): Fields {
  if (typeof body !== 'object' || body === null || Array.isArray(body))
    throw badInput('The body must be a JSON object.')
  return body as Fields
}

function textField(fields: Fields, name: string): string | null {
  const value = fields[name]
  if (value === undefined || value === null) return null
  if (typeof value !== 'string') throw badInput(`${name} must be a string.`, name)
  return value
}

function flag(fields: Fields, name: string, byDefault = false): boolean {
  const value = fields[name]
  if (value === undefined || value === null) return byDefault
  if (typeof value !== 'boolean') throw badInput(`${name} must be true or false.`, name)
  return value
}

function common(fields: Fields) {
  const model = textField(fields, 'model')
  const agentId = AGENT_ID.exec(model ?? '')?.[0] ?? null
  if (model !== null && agentId === null)
    throw badInput(`There is no model ${JSON.stringify(model.slice(0, 100))}: use an id from GET /v1/models.`, 'model')
  return {
    model,
    agentId,
    isStream: flag(fields, 'stream'),
    metadata: metadataIn(fields['metadata']),
    store: flag(fields, 'store', true),
  }
}

/** Reads the body of `POST /v1/responses`. @throws DoorError */
export function readResponseRequest(body: unknown): ResponseRequest {
  const fields = readFields(body)
  const { model, agentId, ...others } = common(fields)
  const previousId = textField(fields, 'previous_response_id')
  if (agentId === null && previousId === null)
    throw badInput('model is required: use an id from GET /v1/models.', 'model')
  const { input } = fields
  const turns = typeof input === 'string' ? [{ role: 'user' as const, text: input }] : turnsIn(input, 'input')
  return {
    model,
    agentId,
    ...others,
    previousId,
    ...newestOf(turns, 'input'),
    background: flag(fields, 'background'),
    instructions: textField(fields, 'instructions'),
    tools: toolsIn(fields['tools']),
    includesUsage: true,
  }
}

/** Reads the body of `POST /v1/chat/completions`. @throws DoorError */
export function readChatRequest(body: unknown): ResponseRequest {
  const fields = readFields(body)
  const { model, agentId, ...others } = common(fields)
  if (agentId === null) throw badInput('model is required: use an id from GET /v1/models.', 'model')
  const options = fields['stream_options']
  const includesUsage = typeof options === 'object' && options !== null && 'include_usage' in options
  return {
    model,
    agentId,
    ...others,
    ...newestOf(turnsIn(fields['messages'], 'messages'), 'messages'),
    previousId: null,
    background: false,
    instructions: null,
    tools: [],
    includesUsage: includesUsage && (options as Fields)['include_usage'] === true,
  }
}

interface SaidTurn {
  role: 'user' | 'assistant' | 'other'
  text: string
}

/**
 * Reads the messages of a history. Other items, such as calls of tools that the client executed, get the role
 * `other`, because they do not come from the agent.
 */
function turnsIn(value: unknown, field: string): SaidTurn[] {
  if (!Array.isArray(value)) throw badInput(`${field} must be a string or a list of messages.`, field)
  return value.map((item: unknown, index): SaidTurn => {
    const where = `${field}.${index}`
    if (typeof item !== 'object' || item === null) throw badInput(`${where} must be an object.`, where)
    const { role, content, type = 'message' } = item as Fields
    if (type !== 'message' || (role !== 'user' && role !== 'assistant')) return { role: 'other', text: '' }
    return { role, text: contentText(content, role === 'user' ? where : null) }
  })
}

const TEXTS: ReadonlySet<unknown> = new Set(['text', 'input_text', 'output_text'])

/**
 * Returns the text of a message's content. Content that is not text is left out if `where` is null, and otherwise
 * refused with an error for the field `where`.
 */
function contentText(content: unknown, where: string | null): string {
  if (typeof content === 'string') return content
  if (content === null || content === undefined) return ''
  if (!Array.isArray(content)) throw badInput(`${where ?? 'content'} must have text.`, where)
  const texts = content.map((part: unknown) => {
    const { type, text } = (typeof part === 'object' && part !== null ? part : {}) as Fields
    if (TEXTS.has(type) && typeof text === 'string') return text
    if (where === null) return ''
    throw badInput(
      `${where} has content that is not text: ${String(type)}. Upload files with POST /files, and send them with GraphQL.`,
      where,
    )
  })
  return texts.join('\n\n')
}

/** Splits a history into the new part, which consists of the user's last messages, and the turn before it. */
function newestOf(turns: readonly SaidTurn[], field: string): Pick<ResponseRequest, 'text' | 'known'> {
  const said = turns.filter(({ role }) => role !== 'other')
  const end = said.findLastIndex(({ role }) => role === 'assistant')
  const text = textOf(said.slice(end + 1))
  if (said.length === end + 1 || text.trim() === '') throw badInput(`${field} must end with a user message.`, field)
  checkMessageText(text, field)
  if (end === -1) return { text, known: null }
  const before = said.slice(0, end + 1)
  const asked = before.findLastIndex(({ role }) => role === 'user')
  const first = before.findLastIndex(({ role }, index) => index < asked && role === 'assistant') + 1
  return {
    text,
    known:
      asked === -1
        ? null
        : { asked: textOf(before.slice(first, asked + 1)), answered: textOf(before.slice(asked + 1)) },
  }
}

const textOf = (turns: readonly SaidTurn[]) => turns.map(({ text }) => text).join('\n\n')

const MOST_METADATA = 16

function metadataIn(value: unknown): Record<string, string> {
  if (value === undefined || value === null) return {}
  if (typeof value !== 'object' || Array.isArray(value))
    throw badInput('metadata must be an object whose values are strings.', 'metadata')
  const entries = Object.entries(value)
  if (entries.length > MOST_METADATA || entries.some(([, text]) => typeof text !== 'string'))
    throw badInput(`metadata must be an object with at most ${MOST_METADATA} values, all strings.`, 'metadata')
  return Object.fromEntries(entries) as Record<string, string>
}

/** Returns the client's tools, which are only repeated in the response. Agents call only their own tools. */
function toolsIn(value: unknown): unknown[] {
  if (!Array.isArray(value)) return []
  return value.map((tool: unknown) =>
    typeof tool === 'object' && tool !== null ? { description: null, parameters: null, strict: null, ...tool } : tool,
  )
}
