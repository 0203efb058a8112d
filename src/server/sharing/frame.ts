const TWO_BYTES = 126
const EIGHT_BYTES = 127
const FINAL_TEXT = '\x81'

/** What lies between the first pieces, by the second ones: the same for all whose first piece is as long. */
const betweens = new WeakMap<readonly string[], { length: number; between: string[] }>()

/**
 * Unmasked WebSocket text frames (RFC 6455, 5.2) as a server sends them, each of UTF-8 in two pieces: the first one is each
 * receiver's own, the second ones may be given for many receivers. Bytes stand as characters of the same number, here and in
 * the answer ("binary" strings).
 */
export function framesOf(first: string, seconds: readonly string[]): string {
  let known = betweens.get(seconds)
  if (known?.length !== first.length) {
    known = { length: first.length, between: betweenOf(first.length, seconds) }
    betweens.set(seconds, known)
  }
  return known.between.join(first)
}

function betweenOf(length: number, seconds: readonly string[]): string[] {
  const before = seconds.map((second, index) => (seconds[index - 1] ?? '') + headerOf(length + second.length))
  return [...before, seconds.at(-1) ?? '']
}

/** A text's UTF-8 as a binary string. */
export function binaryOf(text: string): string {
  return Buffer.from(text).toString('latin1')
}

function headerOf(length: number): string {
  return FINAL_TEXT + lengthOf(length)
}

function lengthOf(length: number): string {
  if (length < TWO_BYTES) return String.fromCharCode(length)
  if (length < 65_536) return String.fromCharCode(TWO_BYTES, length >>> 8, length & 0xff)
  const bytes = Buffer.alloc(9)
  bytes[0] = EIGHT_BYTES
  bytes.writeBigUInt64BE(BigInt(length), 1)
  return bytes.toString('latin1')
}
