import { useEffect, useRef, useState } from 'react'
import type { Message, MessagePart } from '../../client/index.ts'

const MOST_LETTERS = 400
/** Older messages are not announced. */
const MOST_LOOKED_AT = 200

function wordsOf(part: MessagePart): string {
  if (part.__typename === 'TextPart') return part.text
  if (part.__typename === 'FilePart') return `file ${part.file.name}`
  return part.__typename === 'ToolCallPart' ? `tool call ${part.toolCall.toolName}` : ''
}

interface AnnouncerProps {
  label?: string
  messages: readonly Message[]
  ownId: string | null
}

/** Announces new complete messages to screen readers, but not text while it streams. */
export function Announcer({ label = 'New messages', messages, ownId }: AnnouncerProps) {
  const [said, setSaid] = useState('')
  const looked = useRef<{ newest: number; unfinished: Set<string> } | null>(null)
  useEffect(() => {
    const recent = messages.slice(-MOST_LOOKED_AT)
    const before = looked.current
    const unfinished = recent.filter(({ status }) => status === 'STREAMING').map(({ id }) => id)
    looked.current = { newest: recent.at(-1)?.seq ?? 0, unfinished: new Set(unfinished) }
    if (before === null) return
    const last = recent.findLast(
      ({ id, seq, status, sender }) =>
        status !== 'STREAMING' && sender.id !== ownId && (seq > before.newest || before.unfinished.has(id)),
    )
    if (last === undefined) return
    const text = last.parts.map(wordsOf).join(' ')
    setSaid(`${last.sender.name}: ${text.slice(0, MOST_LETTERS)}`)
  }, [messages, ownId])
  return (
    <div className="sr-only" role="log" aria-live="polite" aria-label={label}>
      {said}
    </div>
  )
}
