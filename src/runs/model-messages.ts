import { createHash } from 'node:crypto'
import type { AssistantModelMessage, ModelMessage, ToolModelMessage } from 'ai'

type ToolPart = ToolModelMessage['content'][number]

type AssistantPart = Exclude<AssistantModelMessage['content'], string>[number]

/** The key in an assistant message's provider options under which the name of the generating model is stored. */
const MADE_BY = 'parley'

/**
 * Creates an assistant message for the journal. If only the model that generated the message can use some of its parts,
 * the model's name is stored in the message.
 */
export function madeBy(model: string, content: AssistantPart[]): AssistantModelMessage {
  const isItsOwn = content.some(
    (part) =>
      part.type === 'reasoning' ||
      'providerOptions' in part ||
      (part.type === 'tool-call' && !isPlain(part.toolCallId)),
  )
  return { role: 'assistant', content, ...(isItsOwn ? { providerOptions: { [MADE_BY]: { model } } } : {}) }
}

/**
 * Adapts a history to a model. Messages of other models lose their reasoning and their provider's ids and signatures,
 * which only those models can use. Call ids that other providers reject are replaced. Results lose the files that the
 * model does not accept.
 */
export function messagesFor(
  model: string,
  messages: ModelMessage[],
  takesFile: (mediaType: string) => boolean,
): ModelMessage[] {
  const renamed = new Map<string, string>()
  return messages.flatMap((message): ModelMessage[] => {
    if (message.role === 'tool') {
      const content = message.content.map((part) => answering(withFilesFor(part, takesFile), renamed))
      return [{ ...message, content }]
    }
    const maker = message.role === 'assistant' ? message.providerOptions?.[MADE_BY]?.model : undefined
    if (maker === undefined || message.role !== 'assistant') return [message]
    const { content } = message
    if (maker === model || typeof content === 'string') return [{ role: 'assistant', content }]
    const left = content.flatMap((part) => foreign(part, renamed))
    return left.length === 0 ? [] : [{ role: 'assistant', content: left }]
  })
}

function foreign(part: AssistantPart, renamed: Map<string, string>): AssistantPart[] {
  if (part.type === 'reasoning') return []
  const { providerOptions: _, ...rest } = part as Exclude<AssistantPart, { type: 'tool-approval-request' }>
  if (rest.type !== 'tool-call') return [rest]
  const toolCallId = plainId(rest.toolCallId)
  renamed.set(rest.toolCallId, toolCallId)
  return [{ ...rest, toolCallId }]
}

/** Removes the files that the model does not accept. The result's text still describes them. */
function withFilesFor(part: ToolPart, takesFile: (mediaType: string) => boolean): ToolPart {
  if (part.type !== 'tool-result' || part.output.type !== 'content') return part
  const value = part.output.value.filter((one) => one.type !== 'file' || takesFile(one.mediaType))
  const [only] = value
  const isText = value.length === 1 && only?.type === 'text'
  return { ...part, output: isText ? { type: 'text', value: only.text } : { type: 'content', value } }
}

function answering<P extends object>(part: P, renamed: Map<string, string>): P {
  const id = 'toolCallId' in part ? renamed.get(String(part.toolCallId)) : undefined
  return id === undefined ? part : { ...part, toolCallId: id }
}

/**
 * Whether all providers accept a call id. Anthropic accepts letters, digits, `_` and `-`, and OpenAI accepts at most 40
 * characters.
 */
function isPlain(id: string): boolean {
  return /^[\w-]{1,40}$/.test(id)
}

function plainId(id: string): string {
  return isPlain(id) ? id : `call_${createHash('sha256').update(id).digest('base64url').slice(0, 24)}`
}
