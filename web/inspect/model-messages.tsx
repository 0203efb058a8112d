import { useState } from 'react'
import { jsonText } from '../ui/json-text.ts'
import { ShowMore } from '../ui/plain-text.tsx'

/** A message to or from a model: the AI SDK's ModelMessage. */
export interface ModelMessage {
  role: string
  content: unknown
}

interface ModelMessagesProps {
  messages: ModelMessage[]
  /** Lower case; every match is marked. */
  sought?: string
}

export function ModelMessages({ messages, sought = '' }: ModelMessagesProps) {
  return messages.map((message, at) => (
    // biome-ignore lint/suspicious/noArrayIndexKey: what was sent does not change
    <div key={at} className="sent">
      <span className="kind">{String(message.role)}</span>
      <ModelText text={textOf(message)} sought={sought} />
    </div>
  ))
}

const CHARACTERS_AT_ONCE = 50_000
const MOST_MARKS = 500

/** Unformatted text with matches marked. A very long text is truncated, with more on request. */
export function ModelText({ text, sought }: { text: string; sought: string }) {
  const [shown, setShown] = useState(CHARACTERS_AT_ONCE)
  const pieces = piecesOf(text.slice(0, shown), sought)
  return (
    <>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls is reached by the keyboard */}
      <pre tabIndex={0} dir="auto">
        {pieces.map((piece, at) =>
          // biome-ignore lint/suspicious/noArrayIndexKey: pieces of one text, in their order
          at % 2 === 1 ? <mark key={at}>{piece}</mark> : piece,
        )}
      </pre>
      <ShowMore rest={text.length - shown} onMore={() => setShown(shown + CHARACTERS_AT_ONCE)} />
    </>
  )
}

/** Splits a text at matches of `sought`: every second piece is a match. */
function piecesOf(text: string, sought: string): string[] {
  if (sought === '') return [text]
  const pieces = text.split(new RegExp(`(${sought.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')})`, 'gi'))
  const marked = MOST_MARKS * 2
  return pieces.length <= marked ? pieces : [...pieces.slice(0, marked), pieces.slice(marked).join('')]
}

/** The API returns messages as JSON of any shape. */
export const listOf = (messages: unknown): ModelMessage[] =>
  Array.isArray(messages) ? messages.filter((message) => typeof message === 'object' && message !== null) : []

const PART_LIMITS = { characters: 300_000, depth: 200 }

/** Returns text parts unchanged, and all other parts as JSON. */
export function textOf({ content }: ModelMessage): string {
  if (typeof content === 'string') return content
  const parts = Array.isArray(content) ? content : [content]
  return parts.map((part) => (part?.type === 'text' ? String(part.text) : jsonText(part, PART_LIMITS).text)).join('\n')
}
