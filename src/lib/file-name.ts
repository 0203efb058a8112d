const LONGEST_NAME = 200
const LONGEST_EXTENSION = 20
const NAMELESS = 'file'

/**
 * Control characters, and marks that are invisible or change the direction of text. With such a mark, `gpj.exe` could
 * look like `exe.jpg`.
 */
const HIDDEN = /[\p{Cc}\u061c\u200b\u200e\u200f\u2028\u2029\u202a-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]/gu

/**
 * Returns a file's name without a path, control characters or direction marks, with 1 to 200 UTF-16 units. A name that is
 * too long keeps its extension.
 */
export function cleanFileName(given: string): string {
  const name = (given.split(/[/\\]/).at(-1) ?? '').toWellFormed().replaceAll(HIDDEN, '').replaceAll(/\s+/g, ' ').trim()
  if (name === '' || /^\.+$/.test(name)) return NAMELESS
  if (name.length <= LONGEST_NAME) return name
  const extension = /\.[^.\s]+$/.exec(name)?.[0] ?? ''
  const kept = extension.length <= LONGEST_EXTENSION ? extension : ''
  return (
    name
      .slice(0, LONGEST_NAME - kept.length)
      .toWellFormed()
      .replace(/\ufffd$/, '') + kept
  )
}
