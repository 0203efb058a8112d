// Creates an animated PNG (APNG, https://www.w3.org/TR/png-3/#animation-information) from a browser's screenshots. An APNG is a
// PNG with further chunks. The GIF and APNG encoders on npm have had no release for years; this one needs only zlib.
import { crc32, deflateSync, inflateSync } from 'node:zlib'

export interface Frame {
  png: Buffer
  shownMs: number
}

interface Picture {
  width: number
  height: number
  /** Three bytes per pixel, row by row. */
  pixels: Buffer
}

interface Rectangle {
  x: number
  y: number
  width: number
  height: number
}

const SIGNATURE = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a])
const RGB = 2
const RGBA = 6
const FILTERS = [0, 1, 2, 4]

/**
 * Combines frames of one size into a picture that loops for ever. Each frame except the first contains only the rectangle that
 * changed. Viewers without support for animation show the last frame.
 */
export function animatedPng(frames: readonly Frame[]): Buffer {
  const pictures = frames.map(({ png }) => decode(png))
  const still = pictures.at(-1)
  if (still === undefined) throw new Error('No frame was given.')
  const whole = { x: 0, y: 0, width: still.width, height: still.height }
  const moves: { area: Rectangle; data: Buffer; shownMs: number }[] = []
  for (const [at, picture] of pictures.entries()) {
    const shownMs = frames[at]?.shownMs ?? 0
    const before = pictures[at - 1]
    const area = before === undefined ? whole : changed(before, picture)
    const last = moves.at(-1)
    if (area !== null) moves.push({ area, data: encode(picture, area), shownMs })
    // Nothing changed, so the previous frame is shown for longer.
    else if (last !== undefined) last.shownMs += shownMs
  }
  const header = Buffer.concat([numbers(whole.width, whole.height), Buffer.from([8, RGB, 0, 0, 0])])
  const chunks = moves.flatMap(({ area, data, shownMs }, at) => [
    chunk('fcTL', frameControl(2 * at, area, shownMs)),
    chunk('fdAT', Buffer.concat([numbers(2 * at + 1), data])),
  ])
  return Buffer.concat([
    SIGNATURE,
    chunk('IHDR', header),
    chunk('acTL', numbers(moves.length, 0)),
    chunk('IDAT', encode(still, whole)),
    ...chunks,
    chunk('IEND', Buffer.alloc(0)),
  ])
}

/** The frame is drawn over the previous one. */
function frameControl(sequence: number, { x, y, width, height }: Rectangle, shownMs: number): Buffer {
  const control = Buffer.concat([numbers(sequence, width, height, x, y), Buffer.alloc(6)])
  control.writeUInt16BE(Math.round(shownMs), 20)
  control.writeUInt16BE(1000, 22)
  return control
}

function numbers(...values: number[]): Buffer {
  const bytes = Buffer.alloc(4 * values.length)
  for (const [at, value] of values.entries()) bytes.writeUInt32BE(value, 4 * at)
  return bytes
}

function chunk(type: string, data: Buffer): Buffer {
  const named = Buffer.concat([Buffer.from(type, 'latin1'), data])
  return Buffer.concat([numbers(data.length), named, numbers(crc32(named))])
}

/** Decodes a PNG with 8 bits per channel that is not interlaced; ignores transparency. */
function decode(png: Buffer): Picture {
  const packed: Buffer[] = []
  let [width, height, color] = [0, 0, 0]
  for (let at = SIGNATURE.length; at < png.length; ) {
    const length = png.readUInt32BE(at)
    const data = png.subarray(at + 8, at + 8 + length)
    const type = png.toString('latin1', at + 4, at + 8)
    if (type === 'IHDR') [width, height, color] = [data.readUInt32BE(0), data.readUInt32BE(4), data.readUInt8(9)]
    if (type === 'IDAT') packed.push(data)
    at += length + 12
  }
  if (color !== RGB && color !== RGBA) throw new Error(`A PNG of colour type ${color} is not supported.`)
  const bytes = color === RGBA ? 4 : 3
  const rows = unfiltered(inflateSync(Buffer.concat(packed)), width * bytes, height, bytes)
  if (bytes === 3) return { width, height, pixels: rows }
  const pixels = Buffer.alloc(width * height * 3)
  for (let at = 0; at < width * height; at++) rows.copy(pixels, at * 3, at * 4, at * 4 + 3)
  return { width, height, pixels }
}

/** Reverses the filters of the rows. The first byte of each row is the number of its filter. */
function unfiltered(filtered: Buffer, stride: number, height: number, bytes: number): Buffer {
  const rows = Buffer.alloc(stride * height)
  for (let y = 0; y < height; y++) {
    const kind = filtered[y * (stride + 1)] ?? 0
    for (let x = 0; x < stride; x++) {
      const at = y * stride + x
      const value = filtered[y * (stride + 1) + 1 + x] ?? 0
      rows[at] = value + predicted(kind, rows, at, x < bytes ? 0 : bytes, y === 0 ? 0 : stride)
    }
  }
  return rows
}

/**
 * Returns a filter's prediction of a byte from its neighbours on the left and above. A distance of 0 means that there is no
 * neighbour on the left.
 */
function predicted(kind: number, rows: Buffer, at: number, left: number, up: number): number {
  const a = left === 0 ? 0 : (rows[at - left] ?? 0)
  const b = up === 0 ? 0 : (rows[at - up] ?? 0)
  if (kind === 0) return 0
  if (kind === 1) return a
  if (kind === 2) return b
  if (kind === 3) return (a + b) >> 1
  const c = left === 0 || up === 0 ? 0 : (rows[at - left - up] ?? 0)
  const [toA, toB, toC] = [Math.abs(b - c), Math.abs(a - c), Math.abs(a + b - 2 * c)]
  return toA <= toB && toA <= toC ? a : toB <= toC ? b : c
}

/** Encodes a rectangle of a picture. Applies to all its rows the filter that compresses best. */
function encode({ width, pixels }: Picture, area: Rectangle): Buffer {
  const stride = area.width * 3
  const rows = Buffer.alloc(stride * area.height)
  for (let y = 0; y < area.height; y++) {
    const from = ((area.y + y) * width + area.x) * 3
    pixels.copy(rows, y * stride, from, from + stride)
  }
  const packed = FILTERS.map((kind) => {
    const filtered = Buffer.alloc((stride + 1) * area.height)
    for (let y = 0; y < area.height; y++) {
      filtered[y * (stride + 1)] = kind
      for (let x = 0; x < stride; x++) {
        const at = y * stride + x
        const expected = predicted(kind, rows, at, x < 3 ? 0 : 3, y === 0 ? 0 : stride)
        filtered[y * (stride + 1) + 1 + x] = (rows[at] ?? 0) - expected
      }
    }
    return deflateSync(filtered, { level: 9 })
  })
  return packed.reduce((best, other) => (other.length < best.length ? other : best))
}

/** Returns the smallest rectangle that contains all differences of two pictures; null if they are equal. */
function changed(before: Picture, after: Picture): Rectangle | null {
  const { width, height } = after
  let [left, right, top, bottom] = [width, -1, height, -1]
  for (let at = 0; at < width * height; at++) {
    const byte = at * 3
    const isSame =
      before.pixels[byte] === after.pixels[byte] &&
      before.pixels[byte + 1] === after.pixels[byte + 1] &&
      before.pixels[byte + 2] === after.pixels[byte + 2]
    if (isSame) continue
    const [x, y] = [at % width, Math.floor(at / width)]
    left = Math.min(left, x)
    right = Math.max(right, x)
    top = Math.min(top, y)
    bottom = Math.max(bottom, y)
  }
  return right < 0 ? null : { x: left, y: top, width: right - left + 1, height: bottom - top + 1 }
}
