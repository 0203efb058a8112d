/** Longer texts are measured by native functions, shorter ones character by character, which is faster for them. */
const SHORT_TEXT = 64
/**
 * Everything except the characters that JSON never escapes. JSON escapes lone surrogates. Ranges are several times as
 * fast as Unicode properties here.
 */
const ESCAPED = /[^ !#-[\]-~\u00a0-\ud7ff\ue000-\uffff]/

/** Returns the bytes of a string as JSON in UTF-8, with its quotation marks. */
export function jsonTextSize(text: string): number {
  if (text.length > SHORT_TEXT) {
    return ESCAPED.test(text) ? Buffer.byteLength(JSON.stringify(text)) : Buffer.byteLength(text) + 2
  }
  let size = 2
  for (let index = 0; index < text.length; index++) size += unitSize(text.charCodeAt(index))
  return size
}

/** Returns the bytes of one UTF-16 unit. A surrogate counts like a lone one: 6 bytes for 2. */
function unitSize(unit: number): number {
  if (unit < 0x20) return unit === 0x0a || unit === 0x0d || unit === 0x09 ? 2 : 6
  if (unit === 0x22 || unit === 0x5c) return 2
  if (unit < 0x80) return 1
  if (unit < 0x800) return 2
  return unit >= 0xd800 && unit <= 0xdfff ? 6 : 3
}

/**
 * Returns the bytes of a value as JSON in UTF-8. Stops once `most` is exceeded and returns some larger number, so that a
 * large value costs no more than necessary.
 */
export function jsonSize(value: unknown, most = Number.POSITIVE_INFINITY): number {
  switch (typeof value) {
    case 'string':
      return jsonTextSize(value)
    case 'number':
    case 'bigint':
      return String(value).length
    case 'boolean':
      return 5
    case 'object':
      return value === null ? 4 : containerSize(value, most)
    default:
      return 4
  }
}

function containerSize(value: object, most: number): number {
  if (value instanceof Date) return 26
  let size = 2
  if (Array.isArray(value)) {
    for (const item of value) {
      size += jsonSize(item, most - size) + 1
      if (size > most) break
    }
    return size
  }
  for (const [key, item] of Object.entries(value)) {
    size += jsonTextSize(key) + jsonSize(item, most - size) + 2
    if (size > most) break
  }
  return size
}
