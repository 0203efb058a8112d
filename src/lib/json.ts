/** Any JSON value. */
export type Json = null | boolean | number | string | Json[] | { [key: string]: Json }

/** A JSON object. */
export type JsonObject = { [key: string]: Json }

/** The size of a value's JSON in UTF-8 bytes. */
export function jsonBytes(value: unknown): number {
  return Buffer.byteLength(JSON.stringify(value) ?? 'null')
}

/** A JSON copy without what JSON cannot carry; `undefined` becomes null. NUL, which PostgreSQL's jsonb refuses, is dropped. */
export function toJson(value: unknown): Json {
  const text = JSON.stringify(value)
  return text === undefined ? null : (JSON.parse(text.replaceAll('\\u0000', '')) as Json)
}

/** Cut to at most `length` UTF-16 units, never between the halves of a surrogate pair. */
export function cut(text: string, length: number): string {
  if (text.length <= length) return text
  const last = text.charCodeAt(length - 1)
  return text.slice(0, last >= 0xd800 && last <= 0xdbff ? length - 1 : length)
}

/** One line: control characters and line breaks become spaces. For names shown to a model or in a log. */
export function oneLine(text: string): string {
  return text.replace(/[\p{Cc}\u2028\u2029]+/gu, ' ').trim()
}
