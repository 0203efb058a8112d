import { useState } from 'react'
import { CallValue } from '../talk/call-card.tsx'
import { CopyButton } from '../ui/copy-button.tsx'
import { jsonText } from '../ui/json-text.ts'
import { ShowMore } from '../ui/plain-text.tsx'
import { type ModelMessage, type PromptPart, partsOf, textOf, textOfPart } from './prompt.ts'

interface ModelMessagesProps {
  messages: readonly ModelMessage[]
  /** The text to mark, in lower case. */
  sought?: string
}

/** Messages to or from a model, each with its parts and a button that copies it. */
export function ModelMessages({ messages, sought = '' }: ModelMessagesProps) {
  return messages.map((message, at) => (
    // biome-ignore lint/suspicious/noArrayIndexKey: sent messages do not change
    <div key={at} className="sent">
      <div className="sent-head">
        <span className="kind">{String(message.role)}</span>
        <CopyButton what="this message" text={() => textOf(message)} />
      </div>
      {partsOf(message).map((part, place) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: sent messages do not change
        <Part key={place} part={part} sought={sought} />
      ))}
    </div>
  ))
}

/** Shows a value as a list of its fields. While the page is searched, shows it as text with the matches marked. */
function Part({ part, sought }: { part: PromptPart; sought: string }) {
  const { title, text, value } = part
  const isFound = sought !== '' && textOfPart(part).toLowerCase().includes(sought)
  return (
    <>
      {title !== 'text' && <span className="note">{title}</span>}
      {text !== null ? (
        <ModelText text={text} sought={sought} />
      ) : isFound ? (
        <ModelText text={jsonText(value, PART_LIMITS).text} sought={sought} />
      ) : (
        <CallValue label={title.startsWith('calls') ? 'Input' : 'Result'} value={value} />
      )}
    </>
  )
}

const PART_LIMITS = { characters: 300_000, depth: 200 }
const CHARACTERS_AT_ONCE = 50_000
const MOST_MARKS = 500

/** Unformatted text with the matches marked. A very long text is cut, with a button to show more. */
export function ModelText({ text, sought }: { text: string; sought: string }) {
  const [shown, setShown] = useState(CHARACTERS_AT_ONCE)
  const pieces = piecesOf(text.slice(0, shown), sought)
  return (
    <>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: keyboard users need the focus to scroll this region */}
      <pre tabIndex={0} dir="auto">
        {pieces.map((piece, at) =>
          // biome-ignore lint/suspicious/noArrayIndexKey: the pieces of a text keep their order
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
