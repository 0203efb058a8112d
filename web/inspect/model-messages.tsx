/** A message as a model is sent it, or answers it: the AI SDK's ModelMessage. */
export interface ModelMessage {
  role: string
  content: unknown
}

interface ModelMessagesProps {
  messages: ModelMessage[]
  /** In small letters; marked wherever it stands. */
  sought?: string
}

/** Word for word, one under the other. */
export function ModelMessages({ messages, sought = '' }: ModelMessagesProps) {
  return messages.map((message, at) => (
    // biome-ignore lint/suspicious/noArrayIndexKey: what was sent does not change
    <div key={at} className="sent">
      <span className="kind">{message.role}</span>
      <ModelText text={textOf(message)} sought={sought} />
    </div>
  ))
}

/** A text as it is, with what is sought in it marked. */
export function ModelText({ text, sought }: { text: string; sought: string }) {
  const pieces =
    sought === '' ? [text] : text.split(new RegExp(`(${sought.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')})`, 'gi'))
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls is reached by the keyboard
    <pre tabIndex={0} dir="auto">
      {pieces.map((piece, at) =>
        // biome-ignore lint/suspicious/noArrayIndexKey: pieces of one text, in their order
        at % 2 === 1 ? <mark key={at}>{piece}</mark> : piece,
      )}
    </pre>
  )
}

/** As the API gives them, which is as JSON. */
export const listOf = (messages: unknown): ModelMessage[] => (Array.isArray(messages) ? messages : [])

/** Its texts as they are, everything else as JSON. */
export function textOf({ content }: ModelMessage): string {
  if (typeof content === 'string') return content
  const parts = Array.isArray(content) ? content : [content]
  return parts.map((part) => (part?.type === 'text' ? part.text : JSON.stringify(part, null, 2))).join('\n')
}
