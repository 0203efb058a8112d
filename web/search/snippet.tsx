interface SnippetProps {
  text: string
  /** The start and end of each match, in UTF-16 units. */
  matches: readonly (readonly number[])[]
}

/** A piece of a text with its matches marked. */
export function Snippet({ text, matches }: SnippetProps) {
  let at = 0
  const pieces = matches.flatMap(([start = 0, end = 0]) => {
    if (start < at || end <= start) return []
    const before = text.slice(at, start)
    at = end
    return [before, <mark key={start}>{text.slice(start, end)}</mark>]
  })
  return (
    <span dir="auto">
      {pieces}
      {text.slice(at)}
    </span>
  )
}
