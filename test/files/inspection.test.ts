import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { Worker } from 'node:worker_threads'
import { createDeflate, deflateSync } from 'node:zlib'
import sharp from 'sharp'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { pictureForModel } from '../../src/files/images.ts'
import { inspectFile } from '../../src/files/inspection.ts'

const picture = (width: number, height: number) =>
  sharp({ create: { width, height, channels: 3, background: '#336699' } })

/** Returns a PDF file with one line of text. */
function pdfOf(text: string): Buffer {
  const content = `BT /F1 24 Tf 72 720 Td (${text}) Tj ET`
  const objects = [
    '<< /Type /Catalog /Pages 2 0 R >>',
    '<< /Type /Pages /Kids [3 0 R] /Count 1 >>',
    '<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R /Resources << /Font << /F1 5 0 R >> >> >>',
    `<< /Length ${content.length} >>\nstream\n${content}\nendstream`,
    '<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>',
  ]
  let pdf = '%PDF-1.4\n'
  const offsets = objects.map((object, index) => {
    const offset = pdf.length
    pdf += `${index + 1} 0 obj\n${object}\nendobj\n`
    return `${String(offset).padStart(10, '0')} 00000 n \n`
  })
  const start = pdf.length
  pdf += `xref\n0 6\n0000000000 65535 f \n${offsets.join('')}trailer\n<< /Size 6 /Root 1 0 R >>\nstartxref\n${start}\n%%EOF`
  return Buffer.from(pdf, 'latin1')
}

/** Returns a PNG file that declares this many pixels, all black. */
function pngBomb(width: number, height: number): Buffer {
  const chunk = (type: string, data: Buffer) => {
    const body = Buffer.concat([Buffer.from(type, 'latin1'), data])
    const framed = Buffer.alloc(body.length + 8)
    framed.writeUInt32BE(data.length)
    body.copy(framed, 4)
    framed.writeUInt32BE(crc32(body), body.length + 4)
    return framed
  }
  const header = Buffer.alloc(13)
  header.writeUInt32BE(width, 0)
  header.writeUInt32BE(height, 4)
  header.set([1, 0, 0, 0, 0], 8)
  const rows = deflateSync(Buffer.alloc((Math.ceil(width / 8) + 1) * height))
  return Buffer.concat([
    Buffer.from('\x89PNG\r\n\x1a\n', 'latin1'),
    chunk('IHDR', header),
    chunk('IDAT', rows),
    chunk('IEND', Buffer.alloc(0)),
  ])
}

function crc32(bytes: Buffer): number {
  let crc = -1
  for (const byte of bytes) {
    crc ^= byte
    for (let bit = 0; bit < 8; bit += 1) crc = (crc >>> 1) ^ (crc & 1 ? 0xedb88320 : 0)
  }
  return (crc ^ -1) >>> 0
}

describe('the inspection of files', () => {
  let directory: string
  beforeAll(async () => {
    directory = await mkdtemp(path.join(tmpdir(), 'parley-inspection-'))
  })
  afterAll(() => rm(directory, { recursive: true, force: true }))

  async function inspect(bytes: Buffer | string) {
    const at = path.join(directory, 'file')
    await writeFile(at, bytes)
    return inspectFile(at)
  }

  test('a picture has the size in which it is shown, and a small version without metadata', async () => {
    const turned = await picture(1200, 600)
      .withExif({ IFD0: { Copyright: 'SECRET PLACE' } })
      .jpeg()
      .withMetadata({ orientation: 6 })
      .toBuffer()
    const found = await inspect(turned)
    expect(found).toMatchObject({ mediaType: 'image/jpeg', width: 600, height: 1200, text: null })
    const { format, width, height, exif, orientation } = await sharp(found.thumbnail!).metadata()
    expect({ format, width, height, exif, orientation }).toEqual({
      format: 'webp',
      width: 256,
      height: 512,
      exif: undefined,
      orientation: undefined,
    })
  })

  test('a picture that claims too many pixels, or is truncated, is treated as a plain file', async () => {
    const nothing = { width: null, height: null, thumbnail: null, text: null }
    expect(await inspect(pngBomb(20_000, 20_000))).toEqual({ mediaType: 'image/png', ...nothing })
    const whole = await picture(300, 300).png().toBuffer()
    expect(await inspect(whole.subarray(0, whole.length - 40))).toEqual({ mediaType: 'image/png', ...nothing })
  })

  test('models receive a picture of at most 1,568 pixels a side, without transparency', async () => {
    const large = await sharp({ create: { width: 3000, height: 1500, channels: 4, background: '#0000' } })
      .png()
      .toBuffer()
    const { format, width, height, hasAlpha } = await sharp((await pictureForModel(async () => large))!).metadata()
    expect({ format, width, height, hasAlpha }).toEqual({ format: 'jpeg', width: 1568, height: 784, hasAlpha: false })
    expect(await pictureForModel(async () => Buffer.from('no picture'))).toBeNull()
  })

  test('the text of text and PDF files is extracted; a damaged PDF has none', async () => {
    expect(await inspect('Grüße\n')).toMatchObject({ mediaType: 'text/plain', text: 'Grüße\n' })
    expect(await inspect(`${'x'.repeat(300_000)}`)).toMatchObject({ text: 'x'.repeat(200_000) })
    const utf16 = Buffer.concat([Buffer.from([0xff, 0xfe]), Buffer.from('wide', 'utf16le')])
    expect(await inspect(utf16)).toMatchObject({ mediaType: 'text/plain', text: 'wide' })
    expect(await inspect(pdfOf('Hello PDF'))).toMatchObject({
      mediaType: 'application/pdf',
      text: expect.stringContaining('Hello PDF'),
    })
    expect(await inspect('%PDF-1.7\nnothing of it')).toMatchObject({ mediaType: 'application/pdf', text: null })
  })

  test('on a version of Node that cannot measure the memory of a thread, the text is extracted too', async () => {
    const { getHeapStatistics } = Worker.prototype
    Reflect.deleteProperty(Worker.prototype, 'getHeapStatistics')
    try {
      expect(await inspect(pdfOf('Hello PDF'))).toMatchObject({ text: expect.stringContaining('Hello PDF') })
    } finally {
      Worker.prototype.getHeapStatistics = getHeapStatistics
    }
  })

  test('the text of a PDF file is extracted in the background, unless that takes too long', async () => {
    const at = path.join(directory, 'background')
    await writeFile(at, pdfOf('Hello PDF'))
    const text = expect.stringContaining('Hello PDF')
    expect(await inspectFile(at, new AbortController().signal)).toMatchObject({ text })
    expect(await inspectFile(at, AbortSignal.abort())).toMatchObject({ mediaType: 'application/pdf', text: null })
  })

  test('a file that decompresses to gigabytes does not use that much memory', async () => {
    const [once, twice] = await deflatedTwice(1024)
    const before = process.memoryUsage().rss
    let peak = before
    const watch = setInterval(() => {
      peak = Math.max(peak, process.memoryUsage().rss)
    }, 10)
    expect(await inspect(bombPdfOf(twice))).toMatchObject({ mediaType: 'application/pdf', text: null })
    expect(await inspect(zipOf('[Content_Types].xml', once))).toMatchObject({
      mediaType: 'application/zip',
      text: null,
    })
    clearInterval(watch)
    expect(Math.round((peak - before) / MEBIBYTE)).toBeLessThan(600)
  })
})

const MEBIBYTE = 1024 * 1024

/** Many mebibytes of the same page operator, compressed twice. */
async function deflatedTwice(mebibytes: number): Promise<[Buffer, Buffer]> {
  const deflating = createDeflate({ level: 1 })
  const chunks: Buffer[] = []
  deflating.on('data', (chunk: Buffer) => chunks.push(chunk))
  const piece = Buffer.alloc(MEBIBYTE, '0 0 m ')
  await pipeline(Readable.from(Array.from({ length: mebibytes }, () => piece)), deflating)
  const once = Buffer.concat(chunks)
  return [once, deflateSync(once)]
}

/** Returns the PDF file of `pdfOf` with a page that is compressed twice. */
function bombPdfOf(content: Buffer): Buffer {
  const [head = '', tail = ''] = pdfOf('-')
    .toString('latin1')
    .split(/<< \/Length \d+ >>\nstream\n.*\nendstream/s)
  const stream = `<< /Length ${content.length} /Filter [/FlateDecode /FlateDecode] >>\nstream\n`
  // If the offsets are wrong, the parser searches for the objects.
  return Buffer.concat([
    Buffer.from(head, 'latin1'),
    Buffer.from(stream),
    content,
    Buffer.from(`\nendstream${tail}`, 'latin1'),
  ])
}

/** Returns an archive with one entry. The parser reads the sizes from the header of the entry. */
function zipOf(name: string, zlib: Buffer): Buffer {
  const data = zlib.subarray(2, -4)
  const entry = Buffer.alloc(26)
  for (const [at, value] of [
    [0, 20],
    [4, 8],
  ] as const)
    entry.writeUInt16LE(value, at)
  entry.writeUInt32LE(data.length, 14)
  entry.writeUInt32LE(1024 * MEBIBYTE, 18)
  entry.writeUInt16LE(name.length, 22)
  const local = Buffer.concat([Buffer.from('PK\x03\x04'), entry, Buffer.from(name), data])
  const central = Buffer.concat([
    Buffer.from('PK\x01\x02'),
    Buffer.from([20, 0]),
    entry,
    Buffer.alloc(14),
    Buffer.from(name),
  ])
  const end = Buffer.alloc(22)
  end.write('PK\x05\x06', 'latin1')
  for (const at of [8, 10]) end.writeUInt16LE(1, at)
  end.writeUInt32LE(central.length, 12)
  end.writeUInt32LE(local.length, 16)
  return Buffer.concat([local, central, end])
}
