const TWO_BYTES = 126
const EIGHT_BYTES = 127
const FINAL_TEXT = '\x81'

/**
 * One unmasked WebSocket text frame (RFC 6455, 5.2) as a server sends it, of UTF-8 in two pieces. Bytes stand as characters
 * of the same number, here and in the answer ("binary" strings): those join by reference, and are copied once, by the write.
 */
export function frameOf(first: string, second: string): string {
  return headerOf(first.length + second.length) + first + second
}

/** A text's UTF-8 as a binary string. */
export function binaryOf(text: string): string {
  return Buffer.from(text).toString('latin1')
}

/** The last header: the frames of one answer, to clients with ids of one length, all have the same. */
let last = { length: -1, header: '' }

function headerOf(length: number): string {
  if (last.length !== length) last = { length, header: FINAL_TEXT + lengthOf(length) }
  return last.header
}

function lengthOf(length: number): string {
  if (length < TWO_BYTES) return String.fromCharCode(length)
  if (length < 65_536) return String.fromCharCode(TWO_BYTES, length >>> 8, length & 0xff)
  const bytes = Buffer.alloc(9)
  bytes[0] = EIGHT_BYTES
  bytes.writeBigUInt64BE(BigInt(length), 1)
  return bytes.toString('latin1')
}
