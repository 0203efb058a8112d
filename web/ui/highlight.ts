/** A piece of code. `kind` is null for text without a separate colour. */
export interface CodePiece {
  text: string
  kind: 'comment' | 'string' | 'number' | 'keyword' | null
}

/** Code longer than this is shown in one colour, because quotation marks that are never closed take quadratic time. */
const MOST_CHARACTERS = 10_000

const HASH_COMMENTS =
  /^(sh|bash|shell|zsh|console|py|python|rb|ruby|ya?ml|toml|ini|dockerfile|make|makefile|r|perl|pl|nix)$/
const DASH_COMMENTS = /^(sql|lua|haskell|hs|elm|ada)$/
/** Languages that are not programs. */
const PLAIN = /^(|text|txt|plain|plaintext|md|markdown|log|output|diff)$/

const KEYWORDS = new Set(
  (
    'abstract and as async await begin bool boolean break by case catch class const continue create def default defer ' +
    'del delete do done double elif else elseif end enum esac except export extends extern false fi final finally float ' +
    'fn for foreach from func function get go goto group having if impl implements import in index inner insert int ' +
    'interface into is join lambda let limit long loop match mod module mut namespace new nil none not null of on or ' +
    'order outer override package pass primary private protected pub public raise readonly ref return select self set ' +
    'short static string struct super switch table then this throw throws trait true try type typedef typeof undefined ' +
    'union unless unsafe until update use using values var virtual void when where while with yield'
  ).split(' '),
)

const STRINGS = String.raw`"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|${'`'}(?:\\[^]|[^${'`'}\\])*${'`'}`
const NUMBERS = String.raw`\b\d[\w.]*`
const WORDS = String.raw`[\p{L}_$][\p{L}\p{N}_$]*`

function patternFor(language: string): RegExp {
  const slashes = String.raw`\/\/.*|\/\*[^]*?(?:\*\/|$)`
  const comments = HASH_COMMENTS.test(language)
    ? '#.*'
    : DASH_COMMENTS.test(language)
      ? String.raw`--.*|\/\*[^]*?(?:\*\/|$)`
      : slashes
  return new RegExp(`(?<comment>${comments})|(?<string>${STRINGS})|(?<number>${NUMBERS})|(?<word>${WORDS})`, 'gu')
}

/**
 * Splits code into pieces by rules that most programming languages share: comments, strings, numbers and keywords. Parsers for
 * all languages would be larger than the rest of the console.
 */
export function highlighted(code: string, language: string): CodePiece[] {
  const name = language.toLowerCase()
  if (PLAIN.test(name) || code.length > MOST_CHARACTERS) return [{ text: code, kind: null }]
  const ignoresCase = name === 'sql'
  const pieces: CodePiece[] = []
  let at = 0
  for (const { 0: text, index, groups = {} } of code.matchAll(patternFor(name))) {
    const kind = kindOf(text, groups, ignoresCase)
    if (kind === null) continue
    if (index > at) pieces.push({ text: code.slice(at, index), kind: null })
    pieces.push({ text, kind })
    at = index + text.length
  }
  if (at < code.length) pieces.push({ text: code.slice(at), kind: null })
  return pieces
}

function kindOf(text: string, groups: Record<string, string | undefined>, ignoresCase: boolean): CodePiece['kind'] {
  if (groups['comment'] !== undefined) return 'comment'
  if (groups['string'] !== undefined) return 'string'
  if (groups['number'] !== undefined) return 'number'
  return KEYWORDS.has(ignoresCase ? text.toLowerCase() : text) ? 'keyword' : null
}
