import { useState } from 'react'
import { Button } from './button.tsx'
import { Fold } from './fold.tsx'

/** The maximum length of a message. Longer texts are outputs of tools and models. */
const CHARACTERS_AT_ONCE = 32_000

interface PlainTextProps {
  text: string
  className?: string
  /** Content taller than this is collapsed. */
  tallPx?: number
}

/** The height above which plain text that replaces formatted content is collapsed. */
export const FALLBACK_TALL_PX = 480

/** Unformatted text with its line breaks. A very long text is cut, with a button to show more. */
export function PlainText({ text, className = '', tallPx }: PlainTextProps) {
  const [shown, setShown] = useState(CHARACTERS_AT_ONCE)
  return (
    <Fold text={text} tallPx={tallPx}>
      <div className={`plain-text ${className}`} dir="auto">
        {text.slice(0, shown)}
      </div>
      <ShowMore rest={text.length - shown} onMore={() => setShown(shown + CHARACTERS_AT_ONCE)} />
    </Fold>
  )
}

/** Shown below a cut text. */
export function ShowMore({ rest, onMore }: { rest: number; onMore(): void }) {
  if (rest <= 0) return null
  return (
    <Button look="quiet" icon="down" onClick={onMore}>
      Show more ({rest.toLocaleString()} characters)
    </Button>
  )
}
