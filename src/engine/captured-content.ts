import type { Attributes } from '@opentelemetry/api'
import type { ModelMessage } from 'ai'
import type { StepPlan } from '../context/mind.ts'
import type { Generation } from '../runs/journal.ts'

/** Parts of messages, as OpenTelemetry's semantic conventions define them for generative AI. */
type CapturedPart =
  | { type: 'text' | 'reasoning'; content: string }
  | { type: 'tool_call'; id: string; name: string; arguments: unknown }
  | { type: 'tool_call_response'; id: string; response: unknown }

/** Returns span attributes with the instructions and messages as the model received them. */
export function sentAttributes({ instructions, messages }: Pick<StepPlan, 'instructions' | 'messages'>): Attributes {
  return {
    'gen_ai.system_instructions': JSON.stringify([{ type: 'text', content: instructions }]),
    'gen_ai.input.messages': JSON.stringify(messages.map(captured)),
  }
}

/** Returns span attributes with the model's response. */
export function answeredAttributes({
  assistant,
  finishReason,
}: Pick<Generation, 'assistant' | 'finishReason'>): Attributes {
  const message = { ...captured(assistant), finish_reason: finishReason }
  return { 'gen_ai.output.messages': JSON.stringify([message]) }
}

function captured({ role, content }: ModelMessage): { role: string; parts: CapturedPart[] } {
  if (typeof content === 'string') return { role, parts: [{ type: 'text', content }] }
  return { role, parts: content.flatMap((part): CapturedPart[] => partOf(part)) }
}

function partOf(part: Exclude<ModelMessage['content'], string>[number]): CapturedPart[] {
  if (part.type === 'text' || part.type === 'reasoning') return [{ type: part.type, content: part.text }]
  if (part.type === 'tool-call')
    return [{ type: 'tool_call', id: part.toolCallId, name: part.toolName, arguments: part.input }]
  if (part.type !== 'tool-result') return []
  const { output } = part
  return [{ type: 'tool_call_response', id: part.toolCallId, response: 'value' in output ? output.value : output }]
}
