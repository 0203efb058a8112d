import { open } from 'node:fs/promises'
import { fileTypeFromFile } from 'file-type'

/** How much of a file is read to determine whether it is text. */
const TEXT_SAMPLE_BYTES = 65_536
const LONGEST_DETECTION_MS = 3000
const UNKNOWN = 'application/octet-stream'
/** Control characters that do not occur in text. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are searched for
const BINARY = /[\0-\x08\x0e-\x1a\x1c-\x1f]/

/**
 * Detects the media type of a file from its bytes. Text of every kind, including HTML and scripts, is `text/plain`,
 * except that XML with an XML declaration is `application/xml`. Returns `application/octet-stream` for unknown types.
 */
export async function mediaTypeOf(path: string): Promise<string> {
  const signal = AbortSignal.timeout(LONGEST_DETECTION_MS)
  const found = await fileTypeFromFile(path, { signal }).catch(() => undefined)
  if (found !== undefined) return found.mime
  return (await isText(path)) ? 'text/plain' : UNKNOWN
}

async function isText(path: string): Promise<boolean> {
  const file = await open(path, 'r')
  try {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(TEXT_SAMPLE_BYTES), 0, TEXT_SAMPLE_BYTES, 0)
    return textOfBytes(buffer.subarray(0, bytesRead)) !== null
  } finally {
    await file.close()
  }
}

/**
 * Decodes the beginning of a text in UTF-8, or in UTF-16 with a byte order mark. Returns null if the bytes are not
 * text.
 */
export function textOfBytes(bytes: Uint8Array): string | null {
  try {
    const text = new TextDecoder(encodingOf(bytes), { fatal: true }).decode(bytes, { stream: true })
    return BINARY.test(text) ? null : text
  } catch {
    return null
  }
}

function encodingOf([first, second]: Uint8Array): string {
  if (first === 0xff && second === 0xfe) return 'utf-16le'
  return first === 0xfe && second === 0xff ? 'utf-16be' : 'utf-8'
}
