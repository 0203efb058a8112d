/** Texts up to this length are measured character by character, because native functions are slower for short texts. */
const SHORT_TEXT = 64
/**
 * Matches every character that JSON might escape, including surrogates. Character ranges are several times as fast as
 * Unicode properties here.
 */
const ESCAPED = /[^ !#-[\]-~\u00a0-\ud7ff\ue000-\uffff]/

/** Returns the number of bytes of a string as JSON in UTF-8, including the quotation marks. */
export function jsonTextSize(text: string): number {
  if (text.length > SHORT_TEXT) {
    return ESCAPED.test(text) ? Buffer.byteLength(JSON.stringify(text)) : Buffer.byteLength(text) + 2
  }
  let size = 2
  for (let index = 0; index < text.length; index++) size += unitSize(text.charCodeAt(index))
  return size
}

/** Returns the number of bytes of one UTF-16 unit. A surrogate counts as if it were alone: 6 bytes instead of 2. */
function unitSize(unit: number): number {
  if (unit < 0x20) return unit === 0x0a || unit === 0x0d || unit === 0x09 ? 2 : 6
  if (unit === 0x22 || unit === 0x5c) return 2
  if (unit < 0x80) return 1
  if (unit < 0x800) return 2
  return unit >= 0xd800 && unit <= 0xdfff ? 6 : 3
}

/**
 * Returns the number of bytes of a value as JSON in UTF-8. If there are more than `most`, stops early and returns a
 * number above `most`, to save time.
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
