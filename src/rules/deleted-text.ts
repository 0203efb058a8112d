import { type Json, oneLine } from '../lib/json.ts'

// Removes a deleted message's text from everything derived from it, such as prompts, tool results and summaries.
// Finds quotations of the whole text or of its beginning, in the forms that the server uses: unchanged, on one line,
// and as JSON within JSON.

/** The replacement for a deleted text. */
export const DELETED_TEXT = '[deleted]'

/**
 * A text of at least this length is found anywhere. A shorter text is found only as a quotation, because it may be
 * part of other words.
 */
const LEAST_ANYWHERE = 12
/** The minimum length of truncated quotations. */
const LEAST_QUOTED = 40
/** The maximum number of times that a quotation may be encoded as JSON within a string. */
const MOST_LEVELS = 2

/** The quotation mark and the line break of each level of encoding. */
const QUOTATIONS = [
  { mark: '"', line: '\\n' },
  { mark: '\\"', line: '\\\\n' },
  { mark: '\\\\\\"', line: '\\\\\\\\n' },
]

/**
 * Fields whose values are keywords of a format, or ids. They contain no quotations, and changing them would make the
 * row unusable.
 */
const STRUCTURE = /^(role|type|kind|change|status|mediaType|toolName|id|.*Ids?)$/

/** Finds and removes deleted texts. */
export interface TextRemoval {
  /**
   * A part of each text that every quotation contains unchanged, for the search in the database; null if a text has
   * no such part that is long enough.
   */
  probes: readonly string[] | null
  /** Returns the string without quotations of the texts; the same string if there are none. */
  fromText(text: string): string
  /** Returns the value with all its strings changed; the same value if there are none. */
  fromJson<Value extends Json>(value: Value): Value
}

export function createTextRemoval(texts: readonly string[]): TextRemoval {
  const forms = [...new Set(texts.filter((text) => text !== '').flatMap(formsOf))].sort((a, b) => b.length - a.length)

  function fromText(text: string): string {
    return forms.reduce(withoutForm, text)
  }
  function fromJson<Value extends Json>(value: Value): Value {
    return (typeof value === 'string' ? fromText(value) : mapped(value, fromJson)) as Value
  }
  const probes = texts.filter((text) => text !== '').map(probeOf)
  return { probes: probes.includes('') ? null : probes, fromText, fromJson }
}

function formsOf(text: string): string[] {
  const forms: string[] = []
  for (const first of [text, oneLine(text)]) {
    let form = first
    for (let level = 0; level <= MOST_LEVELS; level += 1) {
      forms.push(form)
      form = JSON.stringify(form).slice(1, -1)
    }
  }
  return forms.filter((form) => form !== '')
}

function withoutForm(text: string, form: string): string {
  if (text === form) return DELETED_TEXT
  if (form.length < LEAST_ANYWHERE) return withoutShortForm(text, form)
  const head = form.slice(0, LEAST_QUOTED)
  let [kept, from] = ['', 0]
  for (let at = text.indexOf(head); at !== -1; at = text.indexOf(head, from)) {
    kept += text.slice(from, at) + DELETED_TEXT
    from = at + sharedLength(text, at, form)
  }
  return from === 0 ? text : kept + text.slice(from)
}

/**
 * Removes a text that is quoted alone, or before the removed lines of the message's files. Longer forms, to which those lines
 * belong, are removed first.
 */
function withoutShortForm(text: string, form: string): string {
  if (text.startsWith(`${form}\n\n${DELETED_TEXT}`)) return DELETED_TEXT + text.slice(form.length)
  return QUOTATIONS.reduce((kept, { mark, line }) => {
    const ends = [mark, `${line}${line}${DELETED_TEXT}`, ` ${DELETED_TEXT}`]
    return ends.reduce(
      (rest, end) => rest.replaceAll(`${mark}${form}${end}`, () => `${mark}${DELETED_TEXT}${end}`),
      kept,
    )
  }, text)
}

/** Returns how many characters of `form` match the text from the position `at`. */
function sharedLength(text: string, at: number, form: string): number {
  let length = 0
  while (length < form.length && text[at + length] === form[length]) length += 1
  return length
}

/**
 * Returns the longest piece of the beginning that neither JSON nor `oneLine` changes; '' if no such piece is long
 * enough.
 */
function probeOf(text: string): string {
  const beginning = text.trim().slice(0, LEAST_QUOTED).toWellFormed()
  const pieces = beginning.split(/["\\\p{Cc}\u2028\u2029\ufffd]/u)
  const longest = pieces.reduce((most, piece) => (piece.length > most.length ? piece : most), '')
  return longest.length < 2 ? '' : longest
}

function mapped(value: Json, change: (inner: Json) => Json): Json {
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) {
    const items = value.map(change)
    return items.every((item, index) => item === value[index]) ? value : items
  }
  const entries = Object.entries(value).map(
    ([key, inner]) => [key, STRUCTURE.test(key) ? inner : change(inner)] as const,
  )
  return entries.every(([key, inner]) => inner === value[key]) ? value : Object.fromEntries(entries)
}
