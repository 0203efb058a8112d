/** An excerpt of a text, with the ranges that match a query. */
export interface Snippet {
  snippet: string
  /** The matching ranges of `snippet`: start and end in UTF-16 units, in order and without overlaps. */
  matches: [number, number][]
}

/**
 * The maximum number of UTF-16 units before the first match. The constant below limits the whole snippet, not
 * counting ellipses.
 */
const BEFORE = 60
const LONGEST = 240
const MOST_MATCHES = 50
/** Matches are searched only in this many UTF-16 units from the beginning of a text. */
const MOST_READ = 100_000

/**
 * Returns the plain text around the first match, on one line. The pieces come from `readSearchQuery`. Ignores accents
 * and case. Returns the beginning of the text if nothing matches, which can happen because the database normalizes
 * texts differently.
 */
export function snippetOf(text: string, pieces: readonly { text: string }[]): Snippet {
  const given = text.slice(0, MOST_READ).toWellFormed()
  const found = matchesIn(given, pieces)
  const [start, end] = boundsOf(given, found[0]?.[0] ?? 0)
  const [lead, tail] = [start > 0 ? '…' : '', end < text.length ? '…' : '']
  const matches = found
    .filter(([from, to]) => from >= start && to <= end)
    .map(([from, to]): [number, number] => [from - start + lead.length, to - start + lead.length])
  // A line break and the space that replaces it are both one unit long, so the ranges stay correct.
  return { snippet: lead + given.slice(start, end).replace(/\s/gu, ' ') + tail, matches }
}

function matchesIn(text: string, pieces: readonly { text: string }[]): [number, number][] {
  const { folded, starts, ends } = fold(text)
  const wanted = [...new Set(pieces.flatMap((piece) => alternativesOf(piece.text)))]
  const found: [number, number][] = []
  for (const one of wanted) {
    let [at, count] = [folded.indexOf(one), 0]
    for (; at >= 0 && count < MOST_MATCHES; at = folded.indexOf(one, at + one.length)) {
      found.push([starts[at] ?? 0, ends[at + one.length - 1] ?? 0])
      count += 1
    }
  }
  return merged(found).slice(0, MOST_MATCHES)
}

/** Returns the piece and each of its words, because a text can have other separators between the words. */
function alternativesOf(piece: string): string[] {
  const { folded } = fold(piece)
  return [folded, ...folded.split(/[^\p{L}\p{N}\p{M}]+/u).filter((word) => word.length > 1)].filter((one) => one !== '')
}

function merged(ranges: readonly [number, number][]): [number, number][] {
  const result: [number, number][] = []
  for (const [from, to] of ranges.toSorted(([a], [b]) => a - b)) {
    const last = result.at(-1)
    if (last !== undefined && from <= last[1]) last[1] = Math.max(last[1], to)
    else if (to > from) result.push([from, to])
  }
  return result
}

/**
 * Returns the bounds of the snippet. They begin at the start of a word if one is near, and do not split a character.
 */
function boundsOf(text: string, match: number): [number, number] {
  let start = Math.max(0, match - BEFORE)
  if (start > 0) {
    const space = text.slice(start, match).search(/\s/u)
    start = space < 0 ? start : start + space + 1
  }
  return [wholeAt(text, start), wholeAt(text, Math.min(text.length, start + LONGEST))]
}

/** If an index is between the two halves of a surrogate pair, returns the index before the pair. */
function wholeAt(text: string, place: number): number {
  const unit = text.charCodeAt(place)
  return unit >= 0xdc00 && unit < 0xe000 ? place - 1 : place
}

/** Letters that Unicode does not decompose, with their replacements in PostgreSQL's `unaccent`. */
const UNDECOMPOSED: Readonly<Record<string, string>> = {
  ø: 'o',
  ł: 'l',
  đ: 'd',
  ß: 'ss',
  æ: 'ae',
  œ: 'oe',
  ð: 'd',
  þ: 'th',
  ı: 'i',
  ħ: 'h',
  ŧ: 't',
  ŋ: 'n',
  ĸ: 'k',
  '’': "'",
  '‘': "'",
  '“': '"',
  '”': '"',
  '–': '-',
  '—': '-',
}

/**
 * Returns the text in lower case without accents. For each unit of the result, also returns the start and end of the
 * original character.
 */
function fold(text: string): { folded: string; starts: number[]; ends: number[] } {
  let folded = ''
  const starts: number[] = []
  const ends: number[] = []
  let at = 0
  for (const character of text) {
    const lower = character
      .normalize('NFKD')
      .replace(/\p{Mn}/gu, '')
      .toLowerCase()
    const plain = [...lower].map((one) => UNDECOMPOSED[one] ?? one).join('')
    folded += plain
    // A combining accent belongs to the letter before it.
    if (plain === '' && ends.length > 0) ends[ends.length - 1] = at + character.length
    for (let unit = 0; unit < plain.length; unit++) {
      starts.push(at)
      ends.push(at + character.length)
    }
    at += character.length
  }
  return { folded, starts, ends }
}
