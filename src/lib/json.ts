/** Any JSON value. */
export type Json = null | boolean | number | string | Json[] | { [key: string]: Json }

/** A JSON object. */
export type JsonObject = { [key: string]: Json }

export const isObject = (value: unknown): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** Returns the size of a value's JSON in UTF-8 bytes. */
export function jsonBytes(value: unknown): number {
  return Buffer.byteLength(JSON.stringify(value) ?? 'null')
}

/**
 * The maximum nesting of JSON from clients and services. PostgreSQL's jsonb and JSON.stringify fail at a few thousand
 * levels.
 */
export const DEEPEST_JSON = 200

/** Whether JSON has more than `most` levels of nesting. */
export function isTooDeep(value: unknown, most = DEEPEST_JSON): boolean {
  if (typeof value !== 'object' || value === null) return false
  return most === 0 || Object.values(value).some((inner) => isTooDeep(inner, most - 1))
}

/**
 * Returns a copy that can be stored as jsonb. `undefined` becomes null, NUL is removed, and a lone surrogate becomes
 * U+FFFD.
 */
export function toJson(value: unknown): Json {
  const text = JSON.stringify(value)
  if (text === undefined) return null
  const json = JSON.parse(text) as Json
  return MAYBE_NOT_STORABLE.test(text) ? storable(json) : json
}

/** Returns JSON text with sorted keys, so that equal values have equal text. */
export function canonicalText(value: Json): string {
  if (Array.isArray(value)) return `[${value.map(canonicalText).join(',')}]`
  if (typeof value !== 'object' || value === null) return JSON.stringify(value)
  const entries = Object.keys(value)
    .sort()
    .map((key) => `${JSON.stringify(key)}:${canonicalText(value[key] as Json)}`)
  return `{${entries.join(',')}}`
}

/** Returns a value's JSON text, cleaned as by `toJson`, for use as a jsonb parameter of raw SQL. */
export function jsonbText(value: unknown): string {
  const text = JSON.stringify(value) ?? 'null'
  return MAYBE_NOT_STORABLE.test(text) ? JSON.stringify(toJson(value)) : text
}

/**
 * Matches NUL and lone surrogates as JSON.stringify escapes them. It is only a fast first check, because it also
 * matches a text that contains such an escape literally.
 */
const MAYBE_NOT_STORABLE = /\\u(0000|d[89a-f])/

function storable(value: Json): Json {
  if (typeof value === 'string') return storableText(value)
  if (Array.isArray(value)) return value.map(storable)
  if (value === null || typeof value !== 'object') return value
  return Object.fromEntries(Object.entries(value).map(([key, field]) => [storableText(key), storable(field)]))
}

/** Returns a text without the characters that PostgreSQL cannot store. */
export const storableText = (text: string): string => text.replaceAll('\0', '').toWellFormed()

/** Cuts a text to at most `length` UTF-16 units, never between the halves of a surrogate pair. */
export function cut(text: string, length: number): string {
  if (text.length <= length) return text
  const last = text.charCodeAt(length - 1)
  return text.slice(0, last >= 0xd800 && last <= 0xdbff ? length - 1 : length)
}

/**
 * Like `cut`, but appends the number of omitted characters. If the text was already cut before, `uncutLength` is its
 * original length.
 */
export function cutSaying(text: string, length: number, uncutLength = text.length): string {
  const kept = cut(text, length)
  return kept.length === uncutLength ? text : `${kept}… (${uncutLength - kept.length} more characters)`
}

/** Returns as many of the first items as have texts of at most `characters` in total. */
export function firstWithin<T>(items: readonly T[], characters: number, textOf: (item: T) => string): T[] {
  let left = characters
  const end = items.findIndex((item) => {
    left -= textOf(item).length + 1
    return left < 0
  })
  return end === -1 ? [...items] : items.slice(0, end)
}

/** Replaces control characters and line breaks with spaces, for names in a prompt or log line. */
export function oneLine(text: string): string {
  return text.replace(/[\p{Cc}\u2028\u2029]+/gu, ' ').trim()
}

/** Returns a name for a line of a prompt, quoted if it contains characters with a special meaning in prompts. */
export function nameIn(name: string): string {
  const line = oneLine(name)
  return /[[\]():,"\\]/.test(line) ? JSON.stringify(line) : line
}
