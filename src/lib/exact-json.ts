import { BadInputError } from './errors.ts'

/**
 * Throws on invalid bytes. If they were replaced, the replacement characters would be stored as if the client had sent
 * them. Drops a byte order mark.
 */
const utf8 = new TextDecoder('utf-8', { fatal: true })

/** Decodes UTF-8, with or without a byte order mark. @throws BadInputError for any other bytes */
export function decodeUtf8(bytes: Uint8Array): string {
  try {
    return utf8.decode(bytes)
  } catch {
    throw new BadInputError('The text is not valid UTF-8. Encode it as UTF-8 and send it again.')
  }
}

/**
 * Parses JSON that a client sent.
 * @throws SyntaxError, or BadInputError for a number that JavaScript cannot represent: see `isExact`
 */
export function parseExactJson(text: string): unknown {
  const value: unknown = JSON.parse(text)
  const inexact = inexactNumberIn(text)
  if (inexact !== null) throw inexactNumberError(inexact)
  return value
}

/**
 * Whether a JSON or GraphQL number keeps its value as a JavaScript number. This is true for an integer within ±(2^53 −
 * 1), and for a finite number with a fraction or an exponent.
 */
export function isExact(number: string): boolean {
  return /^-?\d+$/.test(number) ? Number.isSafeInteger(Number(number)) : Number.isFinite(Number(number))
}

const LONGEST_QUOTED = 40

export function inexactNumberError(number: string): BadInputError {
  const quoted = number.length > LONGEST_QUOTED ? `${number.slice(0, LONGEST_QUOTED)}…` : number
  return new BadInputError(
    `The number ${quoted} is out of range: integers are between -9007199254740991 and 9007199254740991, other numbers ` +
      'below 1.8e308. Send it as a string.',
  )
}

/** Every inexact number has 16 digits in a row, or an exponent of three digits. */
const MAYBE_INEXACT = /\d{16}|[eE][+-]?\d{3}/
const LONG_NUMBER = /[-+.eE\d]{5,}/g

/**
 * Returns the first number of a JSON text that is not exact; null if there is none. Scans the text, because JSON.parse
 * with a reviver takes seconds for 1 MiB of small values.
 */
export function inexactNumberIn(json: string): string | null {
  if (!MAYBE_INEXACT.test(json)) return null
  for (let at = 0; at < json.length; ) {
    const quote = json.indexOf('"', at)
    const end = quote === -1 ? json.length : quote
    const inexact = json
      .slice(at, end)
      .match(LONG_NUMBER)
      ?.find((number) => !isExact(number))
    if (inexact !== undefined) return inexact
    at = quote === -1 ? end : endOfString(json, quote)
  }
  return null
}

/** Returns the index after the string that begins at `start`. */
function endOfString(json: string, start: number): number {
  let quote = json.indexOf('"', start + 1)
  while (quote !== -1 && isEscaped(json, quote)) quote = json.indexOf('"', quote + 1)
  return quote === -1 ? json.length : quote + 1
}

function isEscaped(json: string, index: number): boolean {
  let backslashes = 0
  while (json[index - 1 - backslashes] === '\\') backslashes += 1
  return backslashes % 2 === 1
}
