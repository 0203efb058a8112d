/** Any JSON value. */
export type Json = null | boolean | number | string | Json[] | { [key: string]: Json }

/** A JSON object. */
export type JsonObject = { [key: string]: Json }

/** The size of a value's JSON in UTF-8 bytes. */
export function jsonBytes(value: unknown): number {
  return Buffer.byteLength(JSON.stringify(value) ?? 'null')
}

/** How deep foreign JSON may be nested: PostgreSQL's jsonb, and JSON.stringify, give up at some thousands. */
export const DEEPEST_JSON = 200

/** Whether JSON is nested deeper than is taken from anybody outside. */
export function isTooDeep(value: unknown, most = DEEPEST_JSON): boolean {
  if (typeof value !== 'object' || value === null) return false
  return most === 0 || Object.values(value).some((inner) => isTooDeep(inner, most - 1))
}

/**
 * A JSON copy without what JSON cannot carry, `undefined` as null; and without what PostgreSQL's jsonb refuses: NUL is
 * dropped, half a surrogate pair becomes U+FFFD.
 */
export function toJson(value: unknown): Json {
  const text = JSON.stringify(value)
  if (text === undefined) return null
  const json = JSON.parse(text) as Json
  return MAYBE_NOT_STORABLE.test(text) ? storable(json) : json
}

/** JSON text with the keys of every object in order: the same value has the same text, however it came. */
export function canonicalText(value: Json): string {
  if (Array.isArray(value)) return `[${value.map(canonicalText).join(',')}]`
  if (typeof value !== 'object' || value === null) return JSON.stringify(value)
  const entries = Object.keys(value)
    .sort()
    .map((key) => `${JSON.stringify(key)}:${canonicalText(value[key] as Json)}`)
  return `{${entries.join(',')}}`
}

/** A value's JSON text for a jsonb parameter of raw SQL, as toJson makes it. */
export function jsonbText(value: unknown): string {
  const text = JSON.stringify(value) ?? 'null'
  return MAYBE_NOT_STORABLE.test(text) ? JSON.stringify(toJson(value)) : text
}

/** As JSON.stringify writes NUL and half pairs; also matches where a text spells them out, so that it is a first look only. */
const MAYBE_NOT_STORABLE = /\\u(0000|d[89a-f])/

function storable(value: Json): Json {
  if (typeof value === 'string') return storableText(value)
  if (Array.isArray(value)) return value.map(storable)
  if (value === null || typeof value !== 'object') return value
  return Object.fromEntries(Object.entries(value).map(([key, field]) => [storableText(key), storable(field)]))
}

/** A text as PostgreSQL can hold it. */
export const storableText = (text: string): string => text.replaceAll('\0', '').toWellFormed()

/** Cut to at most `length` UTF-16 units, never between the halves of a surrogate pair. */
export function cut(text: string, length: number): string {
  if (text.length <= length) return text
  const last = text.charCodeAt(length - 1)
  return text.slice(0, last >= 0xd800 && last <= 0xdbff ? length - 1 : length)
}

/** As `cut`, and where something was cut off, how much. */
export function cutSaying(text: string, length: number): string {
  const kept = cut(text, length)
  return kept.length === text.length ? text : `${kept}… (${text.length - kept.length} more characters)`
}

/** The first of them, in order, whose texts together have at most so many characters. */
export function firstWithin<T>(items: readonly T[], characters: number, textOf: (item: T) => string): T[] {
  let left = characters
  const end = items.findIndex((item) => {
    left -= textOf(item).length + 1
    return left < 0
  })
  return end === -1 ? [...items] : items.slice(0, end)
}

/** One line: control characters and line breaks become spaces. For names shown to a model or in a log. */
export function oneLine(text: string): string {
  return text.replace(/[\p{Cc}\u2028\u2029]+/gu, ' ').trim()
}

/** A name as it stands in a line for a model: in quotes where it holds what could be read as another part of that. */
export function nameIn(name: string): string {
  const line = oneLine(name)
  return /[[\]():,"\\]/.test(line) ? JSON.stringify(line) : line
}
