import type { AssistantModelMessage, ModelMessage, ToolModelMessage } from 'ai'
import { cutSaying, type Json } from '../lib/json.ts'
import type { JournaledCall, JournaledGeneration, JournaledStep } from './journal.ts'
import { isAnsweredOutside } from './tool-calls.ts'

/** Of a result, what a model is shown; the record keeps all of it. */
const LONGEST_RESULT = 50_000

/** A tool's result, as the provider gets it. */
function toolResult(modelCallId: string, toolName: string, output: Json): ToolModelMessage['content'][number] {
  const text = typeof output === 'string' ? output : JSON.stringify(output)
  const isText = typeof output === 'string' || text.length > LONGEST_RESULT
  const value = isText
    ? { type: 'text' as const, value: cutSaying(text, LONGEST_RESULT) }
    : { type: 'json' as const, value: output }
  return { type: 'tool-result', toolCallId: modelCallId, toolName, output: value }
}

/** What the model is told of a call that never came to an end. */
const INTERRUPTED: Json = {
  error: { code: 'INTERRUPTED', message: 'This call was interrupted; whether it took effect is unknown.' },
}

/** What the model gets at once for a call of a persistent mind that somebody else answers: the answer goes to the inbox. */
function pendingResult(toolCallId: string): Json {
  return { status: 'pending', toolCallId }
}

/** What the model was told of a call. */
function resultOf(call: JournaledCall, { asynchronous }: { asynchronous: boolean }): Json {
  const { id, status, output, settledAt, approvalState } = call
  const isAnsweredLater = isAnsweredOutside(call) && ['WAITING', 'DONE', 'TIMED_OUT'].includes(status)
  if (asynchronous && (isAnsweredLater || (approvalState !== null && status !== 'CANCELED'))) return pendingResult(id)
  return settledAt === null || (status === 'CANCELED' && output === null) ? INTERRUPTED : (output as Json)
}

type Answered = JournaledStep<Pick<JournaledGeneration, 'assistant'>>

/**
 * The messages that a journaled step added. Repaired in both directions, so that a provider accepts it: every call has exactly
 * one result, in the order of the calls, and there is no result without its call.
 */
export function messagesOfStep({ step, calls }: Answered, mode = { asynchronous: false }): ModelMessage[] {
  const assistant = assistantOf(step)
  // Some providers refuse an assistant's message without content.
  if (calls.length === 0) return assistant.content.length === 0 ? [] : [assistant]
  const content = calls.map((call) => toolResult(call.modelCallId, writtenName(assistant, call), resultOf(call, mode)))
  return [assistant, { role: 'tool', content }]
}

/** The name that the model called a tool by, which providers compare with the call's; of a tool that there is not only the step has it. */
function writtenName({ content }: AssistantModelMessage, { modelCallId, toolName }: JournaledCall): string {
  const parts = Array.isArray(content) ? content : []
  const made = parts.find((part) => part.type === 'tool-call' && part.toolCallId === modelCallId)
  return made?.type === 'tool-call' ? made.toolName : toolName
}

/** What each of a run's journaled steps was sent, after `first`, and what it added. */
export function sentAndAdded(
  steps: JournaledStep[],
  first: ModelMessage[] = [],
  mode = { asynchronous: false },
): { sent: ModelMessage[]; response: ModelMessage[] }[] {
  let sent = first
  let response: ModelMessage[] = []
  return steps.map(({ step, calls }) => {
    const added = step.messagesAdded as unknown as ModelMessage[]
    sent = [...sent.slice(0, step.messagesKept), ...(step.followsResponse ? response : []), ...added]
    response = messagesOfStep({ step, calls }, mode)
    return { sent, response }
  })
}

/** The text with which a step ended, which is internal; null for none. */
export function closingWords({ step }: Answered): string | null {
  const { content } = assistantOf(step)
  const texts =
    typeof content === 'string' ? [content] : content.flatMap((part) => (part.type === 'text' ? [part.text] : []))
  return texts.join('').trim() || null
}

function assistantOf(step: Answered['step']): AssistantModelMessage {
  return step.assistant as unknown as AssistantModelMessage
}
