import { memo, useState } from 'react'
import { Button } from './button.tsx'
import { jsonText } from './json-text.ts'

const OPEN_BELOW = 320
const LIMITS = { characters: 20_000, depth: 60 }
const MOST = { characters: 2_000_000, depth: 1000 }
/** The factor by which each click on “Show more” raises the limits. */
const GROWTH = 5

interface JsonProps {
  label: string
  value: unknown
  /** Whether the value is collapsed even if it is short. */
  isFolded?: boolean
}

/**
 * A JSON value as text, expanded if it is short and collapsed if it is long. A very long or deep value is cut, with a button to
 * show more.
 */
export const Json = memo(function Json({ label, value, isFolded = false }: JsonProps) {
  const [limits, setLimits] = useState(LIMITS)
  const { text, isCut } = jsonText(value, limits)
  const mayGrow = limits.characters < MOST.characters
  const grow = () =>
    setLimits({
      characters: Math.min(limits.characters * GROWTH, MOST.characters),
      depth: Math.min(limits.depth * GROWTH, MOST.depth),
    })
  return (
    <details className="json" open={!isFolded && text.length < OPEN_BELOW}>
      <summary>{label}</summary>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: keyboard users need the focus to scroll this region */}
      <pre tabIndex={0}>{text}</pre>
      {isCut && (
        <p className="plain-note">
          Shortened: “…” marks omitted parts.{' '}
          {mayGrow && (
            <Button look="quiet" icon="down" onClick={grow}>
              Show more
            </Button>
          )}
        </p>
      )}
    </details>
  )
})

/** Returns a value as one short line. */
export function inBrief(value: unknown, most = 120): string {
  const text = typeof value === 'string' ? value : jsonText(value, { characters: most + 1, indent: 0 }).text
  return text.length > most ? `${text.slice(0, most)}…` : text
}
