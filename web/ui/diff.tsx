const KINDS: Record<string, string> = { '+': 'added', '-': 'removed', '@': 'hunk' }

/** A unified diff: what was added and removed, by colour and by sign. */
export function Diff({ text }: { text: string }) {
  // The first lines name the two sides, which the title above already does.
  const lines = text.split('\n').filter((line, at, all) => !isHead(line) && (line !== '' || at < all.length - 1))
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls is reached by the keyboard
    <pre className="diff" tabIndex={0}>
      {lines.map((line, at) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: the lines of one diff do not change
        <span key={at} className={KINDS[line[0] ?? ''] ?? 'same'}>
          {line}
          {'\n'}
        </span>
      ))}
    </pre>
  )
}

const isHead = (line: string) => /^(---|\+\+\+|===|Index:)( |=|$)/.test(line)
