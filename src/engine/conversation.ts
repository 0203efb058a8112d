import type { ModelMessage, ToolModelMessage } from 'ai'
import type { ToolCall } from '../generated/prisma/client.ts'
import type { Json } from '../lib/json.ts'
import type { JournaledStep } from '../runs/journal.ts'
import { failureResult } from '../tools/tool.ts'

/** A tool's result, as the provider gets it. */
export function toolResult(modelCallId: string, toolName: string, output: Json): ToolModelMessage['content'][number] {
  const value =
    typeof output === 'string' ? { type: 'text' as const, value: output } : { type: 'json' as const, value: output }
  return { type: 'tool-result', toolCallId: modelCallId, toolName, output: value }
}

/** What the model is told of a call that never came to an end. */
function resultOf(call: ToolCall): Json {
  if (call.settledAt !== null) return call.output as Json
  return failureResult(
    'INTERRUPTED',
    'This call was interrupted before it returned; whether it took effect is unknown.',
  )
}

/**
 * The messages that a run's journaled steps added. Repaired in both directions, so that a provider accepts it: every call has
 * exactly one result, in the order of the calls, and there is no result without its call.
 */
export function messagesOf(steps: JournaledStep[]): ModelMessage[] {
  return steps.flatMap(({ step, calls }): ModelMessage[] => {
    const assistant = step.assistant as unknown as ModelMessage | null
    if (assistant === null) return []
    if (calls.length === 0) return isEmpty(assistant) ? [] : [assistant]
    const content = calls.map((call) => toolResult(call.modelCallId, call.toolName, resultOf(call)))
    return [assistant, { role: 'tool', content }]
  })
}

/** Some providers refuse an assistant's message without content. */
function isEmpty({ content }: ModelMessage): boolean {
  return content.length === 0
}
