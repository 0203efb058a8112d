import { type Json, oneLine } from '../lib/json.ts'

// Removes a deleted message's text from everything derived from it, such as prompts, tool results and summaries. Finds
// quotations of the whole text or of its beginning in the forms that the server writes: unchanged, on one line, or as
// JSON nested in JSON.

/** The text that replaces a deleted text. */
export const DELETED_TEXT = '[deleted]'

/**
 * Texts of at least this length are found anywhere. Shorter texts are found only as complete quotations, because they
 * can be part of other words.
 */
const LEAST_ANYWHERE = 12
/** Truncated quotations are found if they have at least this length. */
const LEAST_QUOTED = 40
/** How many levels of JSON encoding are searched for quotations. */
const MOST_LEVELS = 2

/** The quotation mark and the line break of each level of encoding. */
const QUOTATIONS = [
  { mark: '"', line: '\\n' },
  { mark: '\\"', line: '\\\\n' },
  { mark: '\\\\\\"', line: '\\\\\\\\n' },
]

/**
 * Fields whose values are ids or keywords of a format. These values contain no quotations, and a change would make the
 * row unusable.
 */
const STRUCTURE = /^(role|type|kind|change|status|mediaType|toolName|id|.*Ids?)$/

/** Finds and removes deleted texts. */
export interface TextRemoval {
  /**
   * For the search in the database: a part of each text that every quotation contains unchanged. Null if one of the
   * texts has no such part of sufficient length.
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
  const isAtBeginning = text.startsWith(`${form}\n\n${DELETED_TEXT}`)
  const others = isAtBeginning ? DELETED_TEXT + text.slice(form.length) : text
  return QUOTATIONS.reduce((kept, { mark, line }) => {
    const ends = [mark, `${line}${line}${DELETED_TEXT}`, ` ${DELETED_TEXT}`]
    return ends.reduce(
      (rest, end) => rest.replaceAll(`${mark}${form}${end}`, () => `${mark}${DELETED_TEXT}${end}`),
      kept,
    )
  }, others)
}

/** Returns how many characters of `text`, starting at `at`, match the start of `form`. */
function sharedLength(text: string, at: number, form: string): number {
  let length = 0
  while (length < form.length && text[at + length] === form[length]) length += 1
  return length
}

/**
 * Returns the longest piece of the beginning that stays unchanged in JSON and in `oneLine`; '' if no such piece is long
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
