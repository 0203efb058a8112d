import { memo } from 'react'

const OPEN_BELOW = 320

/** Any JSON value, readable: short ones open, long ones folded. */
export const Json = memo(function Json({ label, value }: { label: string; value: unknown }) {
  const text = JSON.stringify(value, null, 2) ?? 'undefined'
  return (
    <details className="json" open={text.length < OPEN_BELOW}>
      <summary>{label}</summary>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls is reached by the keyboard */}
      <pre tabIndex={0}>{text}</pre>
    </details>
  )
})

/** A value as one short line. */
export function inBrief(value: unknown, most = 120): string {
  const text = typeof value === 'string' ? value : (JSON.stringify(value) ?? '')
  return text.length > most ? `${text.slice(0, most)}…` : text
}
