import type { AssistantModelMessage, ModelMessage, ToolModelMessage } from 'ai'
import { cutSaying, type Json } from '../lib/json.ts'
import type { ResultFile } from '../lib/tool-file.ts'
import { isAnsweredOutside } from '../rules/call-answers.ts'
import { isHandedOutCall } from '../rules/statuses.ts'
import { describeFile } from '../spaces/readable-text.ts'
import type { JournaledCall, JournaledGeneration, JournaledStep } from './journal.ts'

/** The maximum number of characters of a tool's result in a prompt. The journal contains the whole result. */
const LONGEST_RESULT = 50_000

/**
 * Returns a tool's result in the provider's form, with references to the result's stored files. `messagesFor` removes
 * files that a model does not accept.
 */
function toolResult(
  modelCallId: string,
  toolName: string,
  { output, files }: { output: Json; files: readonly ResultFile[] },
): ToolModelMessage['content'][number] {
  const lines = fileLines(files)
  const whole = typeof output === 'string' ? output : JSON.stringify(output)
  const text = [cutSaying(whole, LONGEST_RESULT), ...lines].join('\n')
  const shown = files.flatMap((file) => ('data' in file ? [filePart(file.mediaType, file.data)] : []))
  if (shown.length > 0) {
    const value = [{ type: 'text' as const, text }, ...shown]
    return { type: 'tool-result', toolCallId: modelCallId, toolName, output: { type: 'content', value } }
  }
  const isText = typeof output === 'string' || whole.length > LONGEST_RESULT || lines.length > 0
  const value = isText ? { type: 'text' as const, value: text } : { type: 'json' as const, value: output }
  return { type: 'tool-result', toolCallId: modelCallId, toolName, output: value }
}

/**
 * Returns lines for the model about the files of a result: references to stored files, and notes about files that were
 * not stored.
 */
export function fileLines(files: readonly ResultFile[]): string[] {
  return files.flatMap((file) => {
    if ('data' in file) return []
    return 'note' in file ? [file.note] : [describeFile(file)]
  })
}

const filePart = (mediaType: string, data: string) => ({
  type: 'file' as const,
  mediaType,
  data: { type: 'data' as const, data },
})

/** The result that the model gets for a call that never ended. */
const INTERRUPTED: Json = {
  error: { code: 'INTERRUPTED', message: 'This call was interrupted, and it is unknown whether it took effect.' },
}

/**
 * Returns the immediate result that the model gets for a persistent agent's call to people or services. Their answer is
 * later added to the inbox.
 */
function pendingResult(toolCallId: string): Json {
  return { status: 'pending', toolCallId }
}

/** Returns a call's result in the form that the model received. */
function resultOf(call: JournaledCall, { asynchronous }: { asynchronous: boolean }) {
  const { id, status, output, files, settledAt, approvalState } = call
  const isAnsweredLater = isAnsweredOutside(call) && isHandedOutCall(status)
  if (asynchronous && (isAnsweredLater || (approvalState !== null && status !== 'CANCELED')))
    return { output: pendingResult(id), files: [] }
  if (settledAt === null || (status === 'CANCELED' && output === null)) return { output: INTERRUPTED, files: [] }
  return { output: output as Json, files: (files ?? []) as unknown as ResultFile[] }
}

type Answered = JournaledStep<Pick<JournaledGeneration, 'assistant'>>

/**
 * Returns the messages that a journaled step added. Repairs them if necessary, because providers require that every
 * call has exactly one result, in the order of the calls, and that every result has its call.
 */
export function messagesOfStep({ step, calls }: Answered, mode = { asynchronous: false }): ModelMessage[] {
  const assistant = assistantOf(step)
  // Some providers reject an assistant message without content.
  if (calls.length === 0) return assistant.content.length === 0 ? [] : [assistant]
  const content = calls.map((call) => toolResult(call.modelCallId, writtenName(assistant, call), resultOf(call, mode)))
  return [assistant, { role: 'tool', content }]
}

/**
 * Returns the tool name that the model generated, because providers compare it with the call. For an unknown tool, only
 * the step contains this name.
 */
function writtenName({ content }: AssistantModelMessage, { modelCallId, toolName }: JournaledCall): string {
  const parts = Array.isArray(content) ? content : []
  const made = parts.find((part) => part.type === 'tool-call' && part.toolCallId === modelCallId)
  return made?.type === 'tool-call' ? made.toolName : toolName
}

/**
 * Returns messages for each journaled step of a run: those after `first` that were sent to the model, and those that
 * the step added.
 */
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

/** Returns the text with which a step ended; null if there is none. This text is internal, so viewers do not see it. */
export function closingWords({ step }: Answered): string | null {
  const { content } = assistantOf(step)
  const texts =
    typeof content === 'string' ? [content] : content.flatMap((part) => (part.type === 'text' ? [part.text] : []))
  return texts.join('').trim() || null
}

function assistantOf(step: Answered['step']): AssistantModelMessage {
  return step.assistant as unknown as AssistantModelMessage
}
