import { useState } from 'react'
import type { LiveSpace } from '../../client/index.ts'
import { useDo } from '../ask.ts'
import { Button } from '../ui/button.tsx'
import { Refused } from '../ui/notice.tsx'

const storageKey = (spaceId: string) => `parley.suggestions.${spaceId}`

/** Offers messages in a space, for this tab only. */
export function suggest(spaceId: string, texts: readonly string[]): void {
  if (texts.length === 0) sessionStorage.removeItem(storageKey(spaceId))
  else sessionStorage.setItem(storageKey(spaceId), JSON.stringify(texts))
}

function suggestedIn(spaceId: string): string[] {
  try {
    const stored: unknown = JSON.parse(sessionStorage.getItem(storageKey(spaceId)) ?? '[]')
    return Array.isArray(stored) ? stored.filter((text) => typeof text === 'string') : []
  } catch {
    return []
  }
}

export const hasSuggestions = (spaceId: string) => suggestedIn(spaceId).length > 0

interface SuggestionsProps {
  spaceId: string
  send: LiveSpace['send']
  /** Called when a message is clicked. Its button goes, and with it the focus. */
  onChoose(): void
}

/** Messages to send with one click. Each message is offered until it has been sent. */
export function Suggestions({ spaceId, send, onChoose }: SuggestionsProps) {
  const [texts, setTexts] = useState(() => suggestedIn(spaceId))
  const sending = useDo(async (text: string) => {
    // Each attempt has the same key, so that two clicks post one message.
    await send({ text, mentionedAgentId: null, idempotencyKey: `suggestion: ${text}` })
    const left = suggestedIn(spaceId).filter((other) => other !== text)
    suggest(spaceId, left)
    setTexts(left)
  })
  if (texts.length === 0) return null
  return (
    <section className="suggestions" aria-label="Suggested messages">
      {texts.map((text) => (
        <Button
          key={text}
          className="suggestion"
          isBusy={sending.isBusy}
          onClick={() => {
            sending.start(text)
            onChoose()
          }}
        >
          {text}
        </Button>
      ))}
      <Refused error={sending.error} />
    </section>
  )
}
