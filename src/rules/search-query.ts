import { BadInputError } from '../lib/errors.ts'

/** The maximum length of a query in UTF-16 units. */
export const LONGEST_QUERY = 500

/** A piece of a query. */
export interface QueryPiece {
  text: string
  /**
   * Whether the piece was in quotation marks. If so, its words must follow each other, and the last word must be
   * complete.
   */
  isQuoted: boolean
}

/** The conditions that a query places on a text. All pieces must be found. */
export interface SearchTerms {
  /** A query for `to_tsquery('simple', …)`: the pieces as words, some of them as beginnings of words. */
  words: string
  /** The pieces as parts of words; null if no piece of the query is long enough for a trigram index. */
  parts: PartTerm[] | null
}

export type PartTerm =
  /** A pattern for LIKE, which is matched against the normalized text. */
  | { type: 'like'; pattern: string }
  /** For `to_tsquery`: a piece that must be found as words. */
  | { type: 'words'; words: string }

/**
 * Splits a query at white space and quotation marks. Omits pieces without a letter or digit, so that a query of
 * punctuation finds nothing.
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
 * Matches the characters around the letters and digits of a piece. Combining marks belong to the letter before them.
 */
const EDGES = /^[^\p{L}\p{N}]+|[^\p{L}\p{N}\p{M}]+$/gu

/** Characters of scripts without spaces between words: the same as in the database function `searchWords`. */
const SPACELESS =
  /[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\u{20000}-\u{3ffff}]/gu
const ASCII_PUNCTUATION = /[!-/:-@[-`{-~]/g

/** The minimum length at which an ASCII word also matches as the beginning of longer words. */
const SHORTEST_BEGINNING = 3
/** The minimum length of a part of a word that contains a trigram. */
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

/** Returns a piece as words that follow each other. The last word may be only the beginning of a word. */
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
