const KINDS: Record<string, string> = { '+': 'added', '-': 'removed', '@': 'hunk' }

/** A unified diff. Colours and signs show what was added and removed. */
export function Diff({ text }: { text: string }) {
  // The first lines are the names of the two sides, which the title above already contains.
  const lines = text.split('\n').filter((line, at, all) => !isHead(line) && (line !== '' || at < all.length - 1))
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: keyboard users need the focus to scroll this region
    <pre className="diff" tabIndex={0}>
      {lines.map((line, at) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: the lines of a diff do not change
        <span key={at} className={KINDS[line[0] ?? ''] ?? 'same'}>
          {line}
          {'\n'}
        </span>
      ))}
    </pre>
  )
}

const isHead = (line: string) => /^(---|\+\+\+|===|Index:)( |=|$)/.test(line)
