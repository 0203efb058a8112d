/** An excerpt of a text, with the ranges that match a query. */
export interface Snippet {
  snippet: string
  /** Ranges of `snippet`: start and end in UTF-16 units, in order and apart from each other. */
  matches: [number, number][]
}

/** The maximum number of UTF-16 units before the first match, and in the whole snippet without the ellipses. */
const BEFORE = 60
const LONGEST = 240
const MOST_MATCHES = 50
/** How many UTF-16 units of a text are searched for matches. */
const MOST_READ = 100_000

/**
 * Returns the plain text around the first match, on one line. The pieces are those of the query (`readSearchQuery`). Accents and
 * case do not matter. Without a match, which a difference between this folding and the database's may cause, the
 * snippet is the beginning of the text.
 */
export function snippetOf(text: string, pieces: readonly { text: string }[]): Snippet {
  const given = text.slice(0, MOST_READ).toWellFormed()
  const found = matchesIn(given, pieces)
  const [start, end] = boundsOf(given, found[0]?.[0] ?? 0)
  const [lead, tail] = [start > 0 ? '…' : '', end < text.length ? '…' : '']
  const matches = found
    .filter(([from, to]) => from >= start && to <= end)
    .map(([from, to]): [number, number] => [from - start + lead.length, to - start + lead.length])
  // A line break is one unit, like the space in its place.
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

/** The piece itself, and each of its words, because a text may separate the words differently. */
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

/** Starts at the beginning of a word where one is near, and does not cut a character. */
function boundsOf(text: string, match: number): [number, number] {
  let start = Math.max(0, match - BEFORE)
  if (start > 0) {
    const space = text.slice(start, match).search(/\s/u)
    start = space < 0 ? start : start + space + 1
  }
  return [wholeAt(text, start), wholeAt(text, Math.min(text.length, start + LONGEST))]
}

/** Moves an index between the halves of a surrogate pair to the index before the pair. */
function wholeAt(text: string, place: number): number {
  const unit = text.charCodeAt(place)
  return unit >= 0xdc00 && unit < 0xe000 ? place - 1 : place
}

/** Letters that Unicode does not decompose, as PostgreSQL's `unaccent` writes them. */
const UNDECOMPOSED: Readonly<Record<string, string>> = {
  ...{ ø: 'o', ł: 'l', đ: 'd', ß: 'ss', æ: 'ae', œ: 'oe', ð: 'd', þ: 'th', ı: 'i', ħ: 'h', ŧ: 't', ŋ: 'n', ĸ: 'k' },
  ...{ '’': "'", '‘': "'", '“': '"', '”': '"', '–': '-', '—': '-' },
}

/** The text in lower case without accents, with the start and end of the original character for each folded unit. */
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
