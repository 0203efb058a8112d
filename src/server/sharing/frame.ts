const FINAL_TEXT = 0x81
const TWO_BYTES = 126
const EIGHT_BYTES = 127

/** One unmasked WebSocket text frame (RFC 6455, 5.2) of a text in two pieces, as a server sends it. */
export function frameOf(first: Buffer, second: Buffer): Buffer {
  const length = first.length + second.length
  const start = length < TWO_BYTES ? 2 : length < 65_536 ? 4 : 10
  const frame = Buffer.allocUnsafe(start + length)
  frame[0] = FINAL_TEXT
  if (start === 2) frame[1] = length
  else if (start === 4) {
    frame[1] = TWO_BYTES
    frame.writeUInt16BE(length, 2)
  } else {
    frame[1] = EIGHT_BYTES
    frame.writeBigUInt64BE(BigInt(length), 2)
  }
  first.copy(frame, start)
  second.copy(frame, start + first.length)
  return frame
}
