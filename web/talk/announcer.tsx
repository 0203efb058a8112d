import { useEffect, useRef, useState } from 'react'
import type { Message } from '../../client/index.ts'

const MOST_LETTERS = 400

/** Says finished messages to who listens instead of looking: not the letters while they come, and not what was there before. */
export function Announcer({ messages, ownId }: { messages: readonly Message[]; ownId: string | null }) {
  const [said, setSaid] = useState('')
  const known = useRef<Set<string> | null>(null)
  useEffect(() => {
    const whole = messages.filter(({ status }) => status !== 'STREAMING')
    const fresh = known.current === null ? [] : whole.filter(({ id }) => !known.current?.has(id))
    known.current = new Set(whole.map(({ id }) => id))
    const last = fresh.filter(({ sender }) => sender.id !== ownId).at(-1)
    if (last === undefined) return
    const text = last.parts.map((part) => ('text' in part ? part.text : `asks by ${part.toolCall.toolName}`)).join(' ')
    setSaid(`${last.sender.name}: ${text.slice(0, MOST_LETTERS)}`)
  }, [messages, ownId])
  return (
    <div className="sr-only" role="log" aria-live="polite" aria-label="New messages">
      {said}
    </div>
  )
}
