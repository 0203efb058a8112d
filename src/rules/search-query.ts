import { BadInputError } from '../lib/errors.ts'

/** The maximum length of a query in UTF-16 units. */
export const LONGEST_QUERY = 500

/** A piece of a query. */
export interface QueryPiece {
  text: string
  /**
   * Whether the piece was in quotation marks. The words of a quoted piece must follow each other, and the last word
   * must be complete.
   */
  isQuoted: boolean
}

/** The search conditions of a query. A text matches if it contains all pieces. */
export interface SearchTerms {
  /** A query for `to_tsquery('simple', …)`: the pieces as words or beginnings of words. */
  words: string
  /** The pieces as substrings of words; null if no piece of the query is long enough for a trigram index. */
  parts: PartTerm[] | null
}

export type PartTerm =
  /** A LIKE pattern for the normalized text. */
  | { type: 'like'; pattern: string }
  /** For `to_tsquery`: a piece that is matched as words, not as a substring. */
  | { type: 'words'; words: string }

/**
 * Splits a query at white space and quotation marks. Omits pieces without a letter or digit, so a query of punctuation
 * alone finds nothing.
 * @throws BadInputError if the query has more than 500 UTF-16 units
 */
export function readSearchQuery(query: string): QueryPiece[] {
  if (query.length > LONGEST_QUERY) {
    throw new BadInputError(`A search query has at most ${LONGEST_QUERY} characters, not ${query.length}.`, 'query')
  }
  // PostgreSQL accepts neither NUL nor lone surrogates.
  const text = query.toWellFormed().replace(/\p{Cc}+/gu, ' ')
  return [...text.matchAll(/["“”„«»]([^"“”„«»]*)["“”„«»]|[^\s"“”„«»]+/gu)].flatMap(([whole, quoted]) => {
    const piece = (quoted ?? whole).replace(EDGES, '').replace(/\s+/g, ' ')
    return piece === '' ? [] : { text: piece, isQuoted: quoted !== undefined }
  })
}

/**
 * Matches the characters around the letters and digits of a piece. A combining mark belongs to the letter before it.
 */
const EDGES = /^[^\p{L}\p{N}]+|[^\p{L}\p{N}\p{M}]+$/gu

/** Characters of scripts that have no spaces between words. The database function `searchWords` has the same list. */
const SPACELESS =
  /[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\u{20000}-\u{3ffff}]/gu
const ASCII_PUNCTUATION = /[!-/:-@[-`{-~]/g

/** An ASCII word of at least this length also matches the beginning of longer words. */
const SHORTEST_BEGINNING = 3
/** The minimum length of a substring that the trigram index can find. */
const SHORTEST_PART = 3

/** Converts pieces whose texts the database has already normalized (function `searchFold`). */
export function termsOf(pieces: readonly QueryPiece[]): SearchTerms {
  const all = pieces.map((piece) => ({ ...piece, words: wordsOf(piece) })).filter(({ words }) => words !== '')
  const parts = all.map((piece): PartTerm => {
    const isPart = !piece.isQuoted && hasTrigram(piece.text)
    if (!isPart) return { type: 'words', words: piece.words }
    return { type: 'like', pattern: `%${piece.text.replace(/[\\%_]/g, '\\$&')}%` }
  })
  return {
    words: all.map(({ words }) => words).join(' & '),
    parts: parts.some(({ type }) => type === 'like') ? parts : null,
  }
}

/**
 * Returns the `to_tsquery` expression for a piece, whose words must follow each other. The last word can match the
 * beginning of a longer word.
 */
function wordsOf({ text, isQuoted }: QueryPiece): string {
  const words = text
    .replace(SPACELESS, ' $& ')
    .replace(ASCII_PUNCTUATION, ' ')
    .split(/\s+/)
    .filter((word) => /[\p{L}\p{N}]/u.test(word))
  const terms = words.map((word, index) => {
    const mayContinue = !isQuoted && index === words.length - 1 && isBeginning(word)
    return `'${word.replace(/[\\']/g, '')}'${mayContinue ? ':*' : ''}`
  })
  return terms.length > 1 ? `(${terms.join(' <-> ')})` : (terms[0] ?? '')
}

function isBeginning(word: string): boolean {
  if (word.search(SPACELESS) >= 0) return false
  const length = [...word].length
  return length >= SHORTEST_BEGINNING || (length > 1 && /[^\0-\x7f]/.test(word))
}

function hasTrigram(text: string): boolean {
  return text
    .replace(SPACELESS, ' ')
    .split(/[^\p{L}\p{N}\p{M}]+/u)
    .some((word) => [...word].length >= SHORTEST_PART)
}
