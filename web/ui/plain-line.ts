const TABLE = /\|[^|]+\|.*$/s
const REPLACED: readonly (readonly [RegExp, string])[] = [
  [/!?\[([^\]]{0,300})\]\([^)\s]{0,2000}\)/g, '$1'],
  [/\*\*|~~|`+/g, ''],
  [/(?<!\w)__(?=\S)|(?<=\S)__(?!\w)/g, ''],
  [/(^|["\s])#{1,6}\s+(?=\S)/g, '$1'],
  [/(^|")(?:>|[-*])\s+(?=\S)/g, '$1'],
]

/** A quote of a message that consists only of a call: `Noor in "Garden": "[order: done → {…}]"`. */
const CALL = /^([^"]*(?:"[^"]*")?: )"\[([\w.-]+): [a-z_ ]+(?: → .*)?$/is

/**
 * Returns a line that quotes Markdown as plain text, without markup and without tables, which cannot be read in one line. A
 * quote that ends within a table keeps its closing quotation mark.
 */
export function plainLine(line: string): string {
  const call = CALL.exec(line)
  if (call !== null) return `${call[1]}called ${call[2]}`
  const isQuote = line.endsWith('"')
  const table = /\|\s*:?-{2,}/.test(line) ? line.replace(TABLE, `…${isQuote ? '"' : ''}`) : line
  return REPLACED.reduce((text, [mark, by]) => text.replace(mark, by), table)
}
