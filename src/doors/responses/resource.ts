import { jsonBytes } from '../../lib/json.ts'
import { lastInBytes } from '../bytes.ts'
import type { Item } from './transcript.ts'
import type { TurnView } from './turn-stream.ts'

/** The fields of a request that the response repeats. */
export interface Asked {
  id: string
  createdAt: number
  model: string | null
  previousId: string | null
  background: boolean
  instructions: string | null
  metadata: Readonly<Record<string, string>>
  tools: unknown[]
  store: boolean
}

const ID = /^resp_([0-9a-f]{32})$/

/** Returns the id of a response. It is derived from the id of the message that began the turn. */
export const responseId = (messageId: string): string => messageId.replace(/^msg_/, 'resp_')

/** Returns the id of the message that began the turn, given the id of a response; null for any other id. */
export function messageIdOf(id: string): string | null {
  const [, digits] = ID.exec(id) ?? []
  return digits === undefined ? null : `msg_${digits}`
}

export function itemOf({ id, text }: Item, status: 'in_progress' | 'completed' | 'incomplete') {
  return { type: 'message', id, status, role: 'assistant', content: status === 'in_progress' ? [] : [partOf(text)] }
}

export const partOf = (text: string) => ({ type: 'output_text', text, annotations: [], logprobs: [] })

/**
 * Returns a ResponseResource as defined by Open Responses. Leaves out the oldest output if the resource would
 * otherwise exceed `maxBytes` of JSON.
 */
export function resourceOf(asked: Asked, view: TurnView, maxBytes: number) {
  const { items, words } = view
  const empty = headOf(asked, view)
  const output = [...items, ...words].map((item) => itemOf(item, item.isComplete ? 'completed' : 'incomplete'))
  return { ...empty, output: lastInBytes(output, maxBytes - jsonBytes(empty)) }
}

function headOf(asked: Asked, view: TurnView) {
  const { status, error, usage } = view
  const isOver = status !== 'in_progress'
  return {
    id: asked.id,
    object: 'response',
    created_at: asked.createdAt,
    completed_at: status === 'completed' ? Math.floor((view.completedAt ?? Date.now()) / 1000) : null,
    status,
    incomplete_details: null,
    model: asked.model ?? view.agentId ?? '',
    previous_response_id: asked.previousId,
    instructions: asked.instructions,
    output: [] as ReturnType<typeof itemOf>[],
    error: error === null ? null : { code: 'server_error', message: error.message },
    tools: asked.tools,
    tool_choice: 'auto',
    truncation: 'disabled',
    parallel_tool_calls: true,
    text: { format: { type: 'text' } },
    top_p: 1,
    presence_penalty: 0,
    frequency_penalty: 0,
    top_logprobs: 0,
    temperature: 1,
    reasoning: null,
    usage:
      usage === null || !isOver
        ? null
        : {
            input_tokens: usage.inputTokens,
            input_tokens_details: { cached_tokens: usage.cachedInputTokens },
            output_tokens: usage.outputTokens,
            output_tokens_details: { reasoning_tokens: 0 },
            total_tokens: usage.totalTokens,
          },
    max_output_tokens: null,
    max_tool_calls: null,
    store: asked.store,
    background: asked.background,
    service_tier: 'default',
    metadata: asked.metadata,
    safety_identifier: null,
    prompt_cache_key: null,
  }
}
